"""Text from outside in pictures is drawn literally, without math mode or missing glyphs."""

from pathlib import Path

import numpy as np
import pytest

from transevolve.bench.plot import plot as bench_plot
from transevolve.bench.results import Row
from transevolve.core.figures import integer_ticks, new_figure, plain, save
from transevolve.runs.plots import write_confusion, write_curves
from transevolve.training.sweep import Outcome, Sweep
from transevolve.training.sweep import plot as sweep_plot

NASTY = ["price$^$.csv", "$x_{$", r"\frac{1}{", "_hidden", "日本 \ud83d \0 \n", "[bold]"]
ROWS = [{"step": n, "epoch": n, "seconds": n, "loss": 1.0, "eval_loss": 1.0, "eval_accuracy": 0.5} for n in (1, 2)]


def write_sweep(path: Path, text: str, **sweep) -> None:
    result = {"selected_by": "accuracy", "validation": {"accuracy": 0.5}, "epochs": [{"epoch": 1, "accuracy": 0.5}]}
    outcomes = [Outcome({"data.path": text, "training.seed": n}, [result]) for n in (1, 2)]
    sweep_plot(Sweep("r", **sweep), outcomes, path)


PICTURES = {
    "curves": lambda path, text: write_curves(path, ROWS, text),
    "confusion": lambda path, text: write_confusion(path, np.array([[1, 2], [3, 4]]), [text, "b"], text),
    "sweep": write_sweep,
    "sweep over a grid": lambda path, text: write_sweep(path, text, grid={"data.path": [text]}),
    "bench": lambda path, text: bench_plot(
        path, text, [Row(text, "", "", 8 * n) for n in (1, 2)], lambda row: 1.0, "y"
    ),
    "bench of one length": lambda path, text: bench_plot(path, text, [Row(text, "", "", 8)], lambda _: 1.0, "y"),
}


@pytest.mark.parametrize("text", [NASTY[0], "_" + " ".join(NASTY) * 9])
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_any_text_can_be_drawn(draw, text, tmp_path):
    draw(tmp_path / "x.png", text)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("text", NASTY)
def test_a_legend_shows_any_name(text, tmp_path):
    figure = new_figure(3, 3)
    axes = figure.subplots()
    axes.plot([1, 2], label=plain(text))
    assert len(axes.get_legend_handles_labels()[1]) == 1
    save(figure, tmp_path / "x.svg")


def test_epochs_have_whole_ticks(tmp_path):
    figure = new_figure(5, 3)
    axes = figure.subplots()
    axes.plot([1, 2, 3], [0.1, 0.2, 0.3])
    integer_ticks(axes)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())
    save(figure, tmp_path / "x.png")


def test_a_picture_does_not_follow_a_link(tmp_path):
    """Neither by the picture's own name nor by one that a temporary file might have."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("x.png", ".x.png.part"):
        (tmp_path / name).symlink_to(precious)
    save(new_figure(1, 1), tmp_path / "x.png")
    assert precious.read_text() == "mine"
    assert not (tmp_path / "x.png").is_symlink()
