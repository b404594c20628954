"""`transevolve export`: every format read back, with the numbers of the run's own model."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from test_explain import NASTY, another, as_run, train_tiny
from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration
from transevolve.cli import main
from transevolve.export import classifier
from transevolve.export.classifier import load_logits, sample
from transevolve.export.onnx import load_onnx
from transevolve.export.program import load_program
from transevolve.export.timing import Timing, table
from transevolve.inference.prediction import Predictor

pytestmark = pytest.mark.usefixtures("unchecked")
needs_onnx = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs the export extra")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train_tiny(tmp_path_factory.mktemp("export"))


@pytest.fixture
def translation(run, tmp_path) -> Path:
    shape = {"vocab_size": 99, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "block_depth": 2}
    return as_run(tmp_path / "translation", TransEvolveForConditionalGeneration(TransEvolveConfig(**shape)), run)


def require_same(expected, found) -> None:
    """At shapes the command itself does not check."""
    with torch.inference_mode():
        for rows, length in ((1, 3), (4, 50), (1, 300)):
            batch = sample(rows, length, 40)
            torch.testing.assert_close(found(*batch), expected(*batch), rtol=0, atol=1e-4)


@needs_onnx
def test_onnx(run, tmp_path, capsys):
    output = tmp_path / "onnx"
    assert main(["export", str(run), "--format", "onnx", "--output", str(output), "--rounds", "2"]) == 0
    told = capsys.readouterr().out
    for words in ("checked in onnxruntime", "largest difference", "speed of onnxruntime / torch", "256"):
        assert words in told
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


def test_hugging_face_folder(run, tmp_path):
    output = tmp_path / "my-model"
    assert main(["export", str(run), "--format", "hf", "--output", str(output)]) == 0
    model = AutoModelForSequenceClassification.from_pretrained(output)
    require_same(load_logits(run), lambda ids, mask: model(input_ids=ids, attention_mask=mask).logits)
    texts = ["the film was great", "the film was dull and cold"]
    found = pipeline("text-classification", model=str(output))(texts)
    expected = Predictor(run)(texts)
    assert [row["label"] for row in found] == [prediction.label for prediction in expected]
    assert [row["score"] for row in found] == pytest.approx([p.probability for p in expected], abs=1e-5)


def test_the_card_tells_the_runs_facts(run, tmp_path):
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "my-model")]) == 0
    card = ModelCard.load(tmp_path / "my-model" / "README.md")
    result = json.loads((run / "results.json").read_text())
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-classification"
    metrics = {found.metric_name: found.metric_value for found in card.data.eval_results}
    assert metrics["validation accuracy"] == result["validation"]["accuracy"]
    for told in (f"{result['parameters']:,} parameters", NASTY, "block_depth: 2", result["selected_on"]):
        assert told in card.text


def test_a_run_without_results_has_a_card_that_says_so(run, tmp_path):
    folder = another(tmp_path / "run", run)
    assert main(["export", str(folder), "--format", "hf"]) == 0
    assert "nothing was recorded" in (folder / "hf" / "README.md").read_text()


def test_translation_goes_to_hugging_face_only(translation, capsys):
    for format in ("onnx", "torch-export"):
        assert main(["export", str(translation), "--format", format]) == 2
        assert f"{format} is for classifiers; --format hf exports it whole" in capsys.readouterr().err
    assert main(["export", str(translation), "--format", "hf"]) == 0
    model = AutoModelForSeq2SeqLM.from_pretrained(translation / "hf")
    AutoTokenizer.from_pretrained(translation / "hf")
    assert model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=3).shape[0] == 1
    assert "pipeline_tag: translation" in (translation / "hf" / "README.md").read_text()


def test_what_differs_is_not_written(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(classifier, "TOLERANCE", -1.0)
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "out")]) == 2
    assert "it was not written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_missing_packages_are_named_with_the_command(run, monkeypatch, capsys):
    monkeypatch.setattr("transevolve.export.onnx.find_spec", lambda name: None)
    assert main(["export", str(run), "--format", "onnx"]) == 2
    told = capsys.readouterr().err
    assert "pip install 'transevolve[export]'" in told
    assert told.count("\n") == 1


def test_speed_is_a_ratio_of_medians():
    _, (row,) = table([Timing(16, [0.002, 0.004, 0.006], [0.001, 0.002, 0.003])], "onnxruntime")
    assert row == ["16", "4.00", "2.00", "2.00 (2.00-2.00)"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "onnxx"], "--format: 'onnxx' is not 'onnx' or 'torch-export' or 'hf'; did you mean 'onnx'?"),
        ([], "parameter --format requires an argument"),
        (["--format", "hf", "--rounds", "-1"], "cannot be negative"),
        (["--format", "hf", "--output", "{run}"], "is the run's own folder"),
        (
            ["--format", "hf", "--output", "{run}/checkpoints"],
            "is not empty: choose another --output, or add --overwrite",
        ),
        (["--format", "hf", "--output", "{run}/config.json"], "is a file: choose a folder"),
    ],
)
def test_mistakes_are_one_line(arguments, told, run, capsys):
    assert main(["export", str(run), *(word.format(run=run) for word in arguments)]) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("format", ["onnx", "torch-export", "hf"])
def test_a_folder_that_is_no_run(format, tmp_path, capsys):
    assert main(["export", str(tmp_path / "nowhere"), "--format", format]) == 2
    assert capsys.readouterr().err.count("\n") == 1
