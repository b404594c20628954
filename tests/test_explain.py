"""`transevolve explain`: the page and the pictures show what the model computes."""

import base64
import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from browser import WIDTHS, check_page, dump, needs_chromium
from transevolve import (
    PeerConfig,
    PeerForSequenceClassification,
    TransEvolveConfig,
    TransEvolveForSequenceClassification,
)
from transevolve.cli import main
from transevolve.data.tokenizers import byte_tokenizer, train_subwords
from transevolve.explain.error_over_depth import measure
from transevolve.explain.observe import Observer, readable_tokens
from transevolve.explain.projection import project
from transevolve.inference import load as load_run
from transevolve.runs.storage import write_manifest

TEXT = 'the film <script>alert("&")</script> was great & warm'
NASTY = "<b>good</b> & $x$"


def train_tiny(folder: Path, *more: str) -> Path:
    """A run of sixty rows, two depths and two heads, with a label that would break an unescaped page."""
    table, run = folder / "rows.csv", folder / "run"
    words = {NASTY: "good great lovely warm", "bad": "bad awful dull cold"}
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for i in range(60):
            label = list(words)[i % 2]
            writer.writerow([f"the film {i % 7} was {words[label].split()[i % 4]} and new", label])
    shape = ["hidden_size=16", "num_attention_heads=2", "intermediate_size=32", "block_depth=2"]
    flags = ["--training.epochs=1", "--training.batch_size=16", "--training.precision=fp32"]
    flags += [*(f"--model.{setting}" for setting in shape), *more]
    assert main(["train", "--data.path", str(table), "--output", str(run), *flags]) == 0
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("explain"))


def as_run(folder: Path, model, like: Path) -> Path:
    """A run folder with a newly initialized model, and the tokenizer and recipe of another run."""
    folder.mkdir()
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "recipe.yaml"):
        shutil.copyfile(like / name, folder / name)
    write_manifest(folder)
    return folder


def another(folder: Path, like: Path, **settings) -> Path:
    config = TransEvolveConfig.from_pretrained(like, **settings)
    return as_run(folder, TransEvolveForSequenceClassification(config), like)


def page_data(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def page(run, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("page") / "page.html"
    assert main(["explain", str(run), TEXT, "--output", str(output)]) == 0
    return output


def test_page_is_whole_and_safe(page):
    content = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest", content)
    assert re.findall(r"https?://[^\"']+", content) == ["http://www.w3.org/2000/svg"]
    assert "<b>good" not in content
    assert content.count("</script>") == 2
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_page_contains_the_outputs_of_the_model(run, page):
    data, seen = page_data(page.read_text(encoding="utf-8")), Observer(run).observe(TEXT)
    n = len(data["tokens"])
    assert data["tokens"] == seen.tokens
    assert sorted(data["labels"]) == sorted([NASTY, "bad"])
    matrices = np.frombuffer(base64.b64decode(data["attention"]), "<u2").reshape(2, 2, n, n) / 65535
    np.testing.assert_allclose(matrices, seen.attention, atol=1e-5)
    np.testing.assert_allclose(matrices.sum(-1), 1, atol=1e-3)
    assert np.asarray(data["drift"]).shape == (2, 2, n)
    assert [np.asarray(view["points"]).shape for view in data["views"]] == [(3, n, 2)] * 2


@pytest.mark.parametrize("settings", [{}, {"attention": "once"}, {"attention": "linear"}, {"num_blocks": 2}])
def test_the_last_depth_equals_predict(settings, run, tmp_path):
    folder = another(tmp_path / "run", run, **settings)
    (prediction,) = load_run(folder).predict([TEXT])
    seen = Observer(folder).observe(TEXT)
    np.testing.assert_allclose(seen.readout[-1], list(prediction.probabilities.values()), atol=1e-5)
    assert seen.labels == list(prediction.probabilities)


def test_states_and_attention_are_the_models_own(run, tmp_path):
    folder = another(tmp_path / "run", run, num_blocks=2, attention="literal")
    observer = Observer(folder)
    (ids,), _ = observer.ids([TEXT])
    with torch.inference_mode():
        out = observer.model(ids, output_hidden_states=True, output_attentions=True)
    seen = observer.observe(TEXT)
    np.testing.assert_allclose(seen.states[:-1], torch.cat(out.hidden_states[:-1]).numpy(), atol=1e-6)
    np.testing.assert_allclose(seen.attention, torch.cat(out.attentions).numpy(), atol=1e-6)
    assert seen.depths == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_only_the_drift_changes_attention(run):
    """The attention of depth 2 is that of depth 1 times exp of the change of the drift, renormalized."""
    seen = Observer(run).observe(TEXT)
    moved = seen.attention[0] * np.exp(seen.drift[1] - seen.drift[0])[:, None, :]
    np.testing.assert_allclose(moved / moved.sum(-1, keepdims=True), seen.attention[1], atol=1e-5)


def test_attention_that_does_not_evolve_has_no_drift(run, tmp_path):
    folder = another(tmp_path / "run", run, evolution="none")
    assert main(["explain", str(folder), TEXT]) == 0
    content = (folder / "explain.html").read_text(encoding="utf-8")
    assert "does not evolve" in content
    assert np.abs(page_data(content)["drift"]).max() == 0


def test_long_texts_are_shown_in_part(run, tmp_path):
    assert main(["explain", str(run), "the film " * 40, "--tokens", "10", "--output", str(tmp_path / "page.html")]) == 0
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The model read all 82 tokens; pictures show the first 10." in content
    assert len(page_data(content)["tokens"]) == 10


def test_tokens_that_training_never_saw_are_named(run, tmp_path):
    assert main(["explain", str(run), "the film w was w new", "--output", str(tmp_path / "page.html")]) == 0
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Not in any training text, so the model ignores it: “w”." in content


def test_error_measures_distance_from_recomputed_attention(run, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("the film was good\n\nthe film was bad and new\n", encoding="utf-8")
    flags = ["--error", "--file", str(texts), "--output", str(tmp_path / "error.png")]
    assert main(["explain", str(run), *flags]) == 0
    assert "2 texts" in capsys.readouterr().out
    found = json.loads((tmp_path / "error.json").read_text())
    assert found["depths"] == [[1, 1], [1, 2]]
    for against in ("recomputed", "rescaled"):
        evolved = np.asarray(found[against]["evolved"])
        assert evolved.shape == (2, 2)
        np.testing.assert_allclose(evolved[0], 0, atol=1e-6)
        assert ((evolved[1] > 0) & (evolved[1] < 1)).all()
    assert (tmp_path / "error.png").exists()


def test_distance_agrees_with_a_plain_computation(run):
    observer = Observer(run)
    (ids,), _ = observer.ids([TEXT])
    with torch.inference_mode():
        first, second, _ = observer.steps(ids)
        layer = first.block.attention
        q, k = layer.query(second.x)[0].view(-1, 2, 16), layer.key(second.x)[0].view(-1, 2, 16)
        drift = layer.begin(second.x, backend="literal").evolution.initial.drift[1, 0]
        scores = torch.einsum("ihw,jhw->hij", q, k) / 8**0.5 + drift[:, None]
        ignored = observer.ignored(ids)
        recomputed = torch.softmax(scores if ignored is None else scores.masked_fill(ignored, -torch.inf), -1)
        expected = (first.state.attention(2)[0] - recomputed).abs().sum(-1).mean(-1) / 2
    np.testing.assert_allclose(measure(observer, [TEXT], 512).recomputed["evolved"][1], expected, atol=1e-5)


def test_projection_keeps_distances_in_the_plane():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(3, 5, 2)) @ np.linalg.qr(rng.normal(size=(8, 2)))[0].T
    points, kept = project(plane)
    assert kept == pytest.approx(1)
    flat, low = plane.reshape(15, 8), points.reshape(15, 2)
    np.testing.assert_allclose(np.linalg.norm(flat[0] - flat, axis=1), np.linalg.norm(low[0] - low, axis=1), atol=1e-9)


def test_tokens_of_any_tokenizer_can_be_read():
    subwords = train_subwords("bpe", ["the film was good"] * 5, 300, 64)
    shown = readable_tokens(subwords, subwords("the film")["input_ids"])
    assert shown[-1] == "[EOS]"
    assert "".join(shown[:-1]).replace("␣", " ").strip() == "the film"
    letters = byte_tokenizer(64)
    assert readable_tokens(letters, letters("a b")["input_ids"]) == ["[CLS]", "a", "␣", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a text to explain"),
        (["a", "--file", "x"], "--file and --column need --error"),
        (["--error"], "--error measures over texts"),
        (["a", "--tokens", "0"], "--tokens must be at least 1"),
        (["a", "--output", "page.pdf"], "must end in .html"),
    ],
)
def test_mistakes_are_one_line(arguments, message, run, capsys):
    assert main(["explain", str(run), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_other_systems_are_refused(run, tmp_path, capsys):
    config = PeerConfig(system="transformer", vocab_size=99, hidden_size=16, num_attention_heads=2, num_hidden_layers=1)
    folder = as_run(tmp_path / "run", PeerForSequenceClassification(config), run)
    capsys.readouterr()
    assert main(["explain", str(folder), "a text"]) == 2
    assert "contains a transformer: explain supports only TransEvolve classifiers" in capsys.readouterr().err


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_page_fits_any_screen(width, dark, page):
    check_page(page, width, dark)


@pytest.mark.slow
@needs_chromium
def test_page_draws_in_a_browser(page):
    drawn = dump(page)
    n = len(page_data(page.read_text(encoding="utf-8"))["tokens"])
    parts = {
        name: re.search(rf'<svg id="{name}".*?</svg>', drawn, re.DOTALL) for name in ("readout", "attention", "drift")
    }
    assert all(parts.values())
    assert parts["readout"][0].count("<title>") == 6
    assert parts["attention"][0].count("<rect") >= n * n + n
    assert parts["drift"][0].count("<rect") == 4
    assert "After depth 2 it would predict" in drawn
    assert "<b>good" not in drawn
