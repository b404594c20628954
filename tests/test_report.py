"""`transevolve report`: runs side by side, finished or not, and benchmarks, on a page that needs nothing else."""

import json
import re
import shutil
from pathlib import Path

import pytest

from test_explain import NASTY, train_tiny
from transevolve.cli import main
from transevolve.reporting.report import results
from transevolve.reporting.runs import RunFacts, differences, read_run

SPEED = Path(__file__).parents[1] / "results" / "speed" / "train.json"
DECODE = Path(__file__).parents[1] / "results" / "decode" / "decode.json"
MEMORY = Path(__file__).parents[1] / "results" / "memory" / "train.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = train_tiny(tmp_path_factory.mktemp("report"), "--training.log_steps=1")
    assert main(["evaluate", str(folder), "--split", "validation"]) == 0
    return folder


def report(tmp_path: Path, *paths: Path) -> str:
    output = tmp_path / "report.html"
    assert main(["report", *map(str, paths), "--output", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def test_one_run(run, tmp_path):
    page = report(tmp_path, run)
    result = json.loads((run / "results.json").read_text())
    for told in ("fullFF-1", f"{result['parameters']:,}", f"{result['validation']['accuracy']:.4f} accuracy"):
        assert told in page
    assert result["machine"]["commit"] in page
    assert "Curves: accuracy" in page
    assert "Confusion: run" in page
    assert "What differs" not in page


def test_page_is_whole_and_safe(run, tmp_path):
    page = report(tmp_path, run, SPEED)
    assert NASTY not in page
    assert "&lt;b&gt;good" in page
    assert not re.search(r"<script|<link|@import", page)
    assert all(source.startswith("data:image/") for source in re.findall(r'src="([^"]*)"', page))


def test_unfinished_runs_tell_what_they_have(run, tmp_path):
    other = tmp_path / "stopped"
    other.mkdir()
    recipe = (run / "recipe.yaml").read_text().replace("block_depth: 2", "block_depth: 3")
    (other / "recipe.yaml").write_text(recipe)
    half = (run / "metrics.jsonl").read_text() + '{"step": 99, "lo'
    (other / "metrics.jsonl").write_text(half)
    page = report(tmp_path, run, other)
    assert "2 runs side by side" in page
    assert "not finished, at step 4" in page
    assert "<td>model.block_depth</td>" in page


def test_a_folder_of_runs_is_its_runs(run, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(run, tmp_path / "runs" / name, ignore=shutil.ignore_patterns("checkpoints"))
    for folder in (tmp_path / "runs", tmp_path):
        page = report(tmp_path, folder)
        assert "<td>one</td>" in page
        assert "<td>two</td>" in page


def test_benchmarks(tmp_path):
    page = report(tmp_path, SPEED, MEMORY)
    for told in ("Benchmark: speed", "Benchmark: memory", "tokens/s", "peak MB", "fullFF-1:once", "speed / sdpa"):
        assert told in page


def test_a_decoding_benchmark_has_a_table_and_a_plot(tmp_path):
    page = report(tmp_path, DECODE)
    for expected in ("Benchmark: decode", "speed / marian generate", "uncached", "machine: AMD", "data:image/png"):
        assert expected in page


def facts(name: str, accuracy: float, **settings) -> RunFacts:
    result = {"task": "files", "selected_by": "accuracy", "validation": {"accuracy": accuracy}, "test": None}
    return RunFacts(name, result, [], settings, [])


def test_the_best_of_a_task_is_marked():
    _, best = results([facts("a", 0.5), facts("b", 0.75), facts("c", 0.75)])
    assert best == {(1, 3), (2, 3)}


def test_only_settings_that_differ_are_told():
    columns, rows = differences([facts("a", 0, seed=1, size="small"), facts("b", 0, seed=2, size="small")])
    assert columns == ["setting", "a", "b"]
    assert rows == [["seed", "1", "2"]]


def test_many_classes_are_told_by_their_mistakes(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    counts = [[5 if i == j else int(j == i + 1) for j in range(40)] for i in range(40)]
    evaluation = {
        "rows": "test",
        "accuracy": 0.8,
        "classes": [{"label": f"c{i}"} for i in range(40)],
        "confusion": counts,
    }
    (folder / "test.evaluation.json").write_text(json.dumps(evaluation))
    assert "40 classes are too many to draw" in report(tmp_path, folder)
    assert len(read_run(folder, "run").evaluations) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "no run folder 'nowhere'"),
        (["."], "is not a run folder: it has no recipe.yaml"),
        (["nowhere.json"], "cannot read nowhere.json"),
        (["broken.json"], "is damaged: it is not JSON"),
        (["other.json"], "holds no benchmark"),
        (["other.json", "--output", "page.txt"], "must be a file that ends in .html"),
        ([], "paths"),
    ],
)
def test_mistakes_are_one_line(arguments, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("other.json").write_text("{}")
    assert main(["report", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1
