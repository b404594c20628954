"""`transevolve export`: every format is loaded again and gives the same numbers as the model of the run."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from ruamel.yaml import YAML
from torch import nn
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from test_explain import NASTY, another, as_run, train_tiny
from transevolve import (
    TransEvolveConfig,
    TransEvolveForConditionalGeneration,
    TransEvolveForSequenceClassification,
)
from transevolve.cli import main
from transevolve.config.recipe import Recipe
from transevolve.export import classifier
from transevolve.export.card import model_card
from transevolve.export.classifier import Logits, logits_of, sample
from transevolve.export.onnx import load_onnx
from transevolve.export.program import load_program
from transevolve.export.timing import Timing, table
from transevolve.inference import load as load_run
from transevolve.kinds import KINDS
from transevolve.models.start import set_pairs
from transevolve.runs import storage
from transevolve.runs.storage import checksum

pytestmark = pytest.mark.usefixtures("unchecked")
needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs the export extra")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("export"))


@pytest.fixture
def translation(run, tmp_path) -> Path:
    shape = {"vocab_size": 99, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "block_depth": 2}
    return as_run(tmp_path / "translation", TransEvolveForConditionalGeneration(TransEvolveConfig(**shape)), run)


def load_logits(folder: Path) -> Logits:
    run = load_run(folder, "cpu")
    return logits_of(run.model, run.kind)


def require_same(expected, found) -> None:
    """At shapes that the command does not check."""
    with torch.inference_mode():
        for rows, length in ((1, 3), (4, 50), (1, 300)):
            batch = sample(rows, length, 40)
            torch.testing.assert_close(found(*batch), expected(*batch), rtol=0, atol=1e-4)


@needs_onnx
def test_onnx(run, tmp_path, capsys):
    output = tmp_path / "onnx"
    assert main(["export", str(run), "--format", "onnx", "--output", str(output), "--rounds", "2"]) == 0
    shown = capsys.readouterr().out
    for words in ("checked in onnxruntime", "largest difference", "speed of onnxruntime / torch", "256"):
        assert words in shown
    require_same(load_logits(run), load_onnx(output / "model.onnx"))
    assert {path.name for path in output.iterdir()} >= {"model.onnx", "config.json", "tokenizer.json", "export.json"}
    record = json.loads((output / "export.json").read_text())
    assert record["difference"] <= 1e-4
    assert [timing["length"] for timing in record["timings"]] == [16, 32, 64, 128, 256]


def test_torch_export(run, tmp_path, capsys):
    output = tmp_path / "program"
    assert main(["export", str(run), "--format", "torch-export", "--output", str(output), "--rounds", "0"]) == 0
    assert "checked in program" in capsys.readouterr().out
    require_same(load_logits(run), load_program(output / "model.pt2"))


@pytest.mark.slow
@needs_onnx
@pytest.mark.parametrize("format", ["onnx", "torch-export"])
@pytest.mark.parametrize(
    "settings",
    [
        {"feedforward": "random"},
        {"attention": "linear"},
        {"num_blocks": 2, "row_operators": True},
        {"evolution": "none"},
    ],
)
def test_every_variant_exports(format, settings, run, tmp_path):
    folder = another(tmp_path / "run", run, **settings)
    assert main(["export", str(folder), "--format", format, "--rounds", "0"]) == 0


@pytest.mark.parametrize("format", [pytest.param("onnx", marks=needs_onnx), "torch-export"])
def test_pairs_of_tokens_are_exported(format, run, tmp_path):
    model = TransEvolveForSequenceClassification(TransEvolveConfig.from_pretrained(run, bigrams=4096))
    set_pairs(model.head.bigrams, np.argwhere(np.ones((40, 40))))
    nn.init.normal_(model.head.bigrams.weight)
    folder, output = as_run(tmp_path / "run", model, run), tmp_path / "output"
    assert main(["export", str(folder), "--format", format, "--rounds", "0", "--output", str(output)]) == 0
    logits = load_logits(folder)
    require_same(logits, load_onnx(output / "model.onnx") if format == "onnx" else load_program(output / "model.pt2"))
    ids, mask = sample(4, 20, 40)
    with torch.inference_mode():
        assert (logits(ids, mask) - logits(ids.flip(1), mask.flip(1))).abs().min() > 0.1


def test_hugging_face_folder(run, tmp_path):
    output = tmp_path / "my-model"
    assert main(["export", str(run), "--format", "hf", "--output", str(output)]) == 0
    assert "pip install transevolve" in json.loads((output / "config.json").read_text())["requires"]
    model = AutoModelForSequenceClassification.from_pretrained(output)
    require_same(load_logits(run), lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits)
    texts = ["the film was great", "the film was dull and cold"]
    found = pipeline("text-classification", model=str(output))(texts)
    expected = load_run(run).predict(texts)
    assert [row["label"] for row in found] == [prediction.label for prediction in expected]
    assert [row["score"] for row in found] == pytest.approx([p.probability for p in expected], abs=1e-5)


def test_the_card_contains_the_facts_of_the_run(run, tmp_path):
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "my-model")]) == 0
    card = ModelCard.load(tmp_path / "my-model" / "README.md")
    result = json.loads((run / "results.json").read_text())
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-classification"
    metrics = {found.metric_name: found.metric_value for found in card.data.eval_results}
    assert metrics["validation accuracy"] == result["validation"]["accuracy"]
    facts = (f"{result['parameters']:,} parameters", NASTY, "block_depth: 2", result["selected_on"])
    for expected in (*facts, "pip install transevolve", "Apache-2.0"):
        assert expected in card.text
    assert str(run.parent) not in card.content
    assert "path: rows.csv" in card.text


def test_the_licence_of_the_weights_is_the_users_choice(run, tmp_path):
    command = ["export", str(run), "--format", "hf", "--output", str(tmp_path / "out"), "--overwrite"]
    for license, options in (("unknown", []), ("mit", ["--license", "mit"])):
        assert main([*command, *options]) == 0
        assert ModelCard.load(tmp_path / "out" / "README.md").data.license == license


NAME = 'a`b"c [d](e) | <script>'
HOSTILE = ["`", "``` x", "a\n\n# heading", "[x](javascript:y)", "</details><script>", "*b* _c_", "| a |"]


@pytest.mark.parametrize("translates", [True, False])
def test_names_and_labels_do_not_break_the_card(translates):
    recipe = Recipe()
    recipe.data.path, recipe.data.label = "/home/me/secret/rows.csv", "# 1e3"
    command = "transevolve train --data.path=/home/me/secret/rows.csv --output 'C:\\Users\\me\\run' --data.text '~/x'"
    result = {
        "selected_by": "*", "selected_on": "<b>", "validation": {"a|b": 0.5}, "machine": {"cpu": "<b>"},
        "seconds": 1.0, "command": command,
    }  # fmt: skip
    kind = KINDS["translation" if translates else "classification"]
    page = model_card(NAME, recipe, result, kind, TransEvolveConfig(id2label=dict(enumerate(HOSTILE))))
    tokens = MarkdownIt("commonmark").enable("table").parse(page.split("---\n", 2)[2])
    flat = [inner for token in tokens for inner in (token, *(token.children or []))]
    assert not [token.content for token in flat if token.type.startswith("html")]
    assert {token.attrs["href"] for token in flat if token.type == "link_open"} == {"https://arxiv.org/abs/2109.15142"}
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[1:] == ["Use", "Results", "Training", "Recipe", "Licence"]
    spans = {token.content for token in flat if token.type == "code_inline"}
    assert translates or spans >= {" ".join(label.split()) for label in HOSTILE}
    for wrong in ("secret", "Users", "~/x"):
        assert wrong not in page
    front = YAML(typ="safe").load(page.split("---\n", 2)[1])
    assert front["model-index"][0]["name"] == NAME
    snippet = re.search(r"```python\n(.*?)\n```", page, re.DOTALL)
    assert snippet is not None
    ast.parse(snippet[1])


@pytest.mark.parametrize("format", ["hf", pytest.param("torch-export", marks=pytest.mark.slow)])
def test_a_run_is_hashed_once(format, run, tmp_path, monkeypatch):
    hashed = []
    monkeypatch.setattr(storage, "checksum", lambda path: hashed.append(path.name) or checksum(path))
    assert main(["export", str(run), "--format", format, "--output", str(tmp_path / "out"), "--rounds", "0"]) == 0
    assert hashed.count("model.safetensors") == 1


def test_export_keeps_the_features_drawn_in_training(run, tmp_path):
    """Features redrawn in training are a function of the passes counted in the checkpoint."""
    config = TransEvolveConfig.from_pretrained(run, attention="linear", feature_redraw_interval=2)
    model = TransEvolveForSequenceClassification(config)
    for name, buffer in model.named_buffers():
        if name.endswith("passes"):
            buffer.fill_(7)
    folder = as_run(tmp_path / "run", model, run)
    assert main(["export", str(folder), "--format", "torch-export", "--rounds", "0"]) == 0
    require_same(load_logits(folder), load_program(folder / "torch-export" / "model.pt2"))


def test_the_card_of_a_run_without_results(run, tmp_path):
    folder = another(tmp_path / "run", run)
    assert main(["export", str(folder), "--format", "hf"]) == 0
    assert "No results were recorded" in (folder / "hf" / "README.md").read_text()


def test_a_translator_for_hugging_face(translation):
    assert main(["export", str(translation), "--format", "hf"]) == 0
    model = AutoModelForSeq2SeqLM.from_pretrained(translation / "hf")
    AutoTokenizer.from_pretrained(translation / "hf")
    assert model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=3).shape[0] == 1
    assert "pipeline_tag: translation" in (translation / "hf" / "README.md").read_text()


def test_an_export_that_differs_is_not_written(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(classifier, "TOLERANCE", -1.0)
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "out")]) == 2
    assert "it was not written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named_with_the_command(run, monkeypatch, capsys):
    monkeypatch.setattr("transevolve.export.onnx.find_spec", lambda name: None)
    assert main(["export", str(run), "--format", "onnx"]) == 2
    complaint = capsys.readouterr().err
    assert "pip install 'transevolve[export]'" in complaint
    assert complaint.count("\n") == 1


def test_speed_is_a_ratio_of_medians():
    _, (row,) = table([Timing(16, [0.002, 0.004, 0.006], [0.001, 0.002, 0.003])], "onnxruntime")
    assert row == ["16", "4.00", "2.00", "2.00 (2.00-2.00)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "onnxx"], "--format: 'onnxx' is not 'onnx' or 'torch-export' or 'hf'; did you mean 'onnx'?"),
        ([], "--format is required"),
        (["--format", "hf", "--rounds", "-1"], "cannot be negative"),
        (["--format", "hf", "--output", "{run}"], "is the run folder"),
        (
            ["--format", "hf", "--output", "{run}/checkpoints"],
            "is not empty: choose another --output, or add --overwrite",
        ),
        (["--format", "hf", "--output", "{run}/config.json"], "is a file: choose a folder"),
    ],
)
def test_mistakes_are_one_line(arguments, message, run, capsys):
    assert main(["export", str(run), *(word.format(run=run) for word in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("format", ["onnx", "torch-export", "hf"])
def test_a_folder_that_is_not_a_run(format, tmp_path, capsys):
    assert main(["export", str(tmp_path / "nowhere"), "--format", format]) == 2
    assert capsys.readouterr().err.count("\n") == 1
