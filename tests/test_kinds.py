"""Kinds of task: regression from file to prediction, and a kind that is added from outside the package."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from kinds_support import write_conll, write_pairs
from training_support import TINY, result, train
from transevolve.cli import main
from transevolve.config.files import load_recipe
from transevolve.config.recipe import Recipe
from transevolve.core.errors import UserError
from transevolve.data import TASKS, load_data
from transevolve.data.registry import Task
from transevolve.data.text import USES, TextTask
from transevolve.inference import load
from transevolve.kinds import KINDS, register, resolve
from transevolve.kinds.classification import Classification
from transevolve.kinds.registry import decide, higher_is_better
from transevolve.kinds.regression import UNCALIBRATED, StandardizedCollator, best_line
from transevolve.models.build import build_transevolve

WORDS = {"awful": -20, "weak": -10, "plain": 0, "fine": 10, "superb": 20}


def write_numbers(path: Path, rows: int = 160, seed: int = 0) -> Path:
    """Prices of 1000 and more, each the sum of the values of its words."""
    draw = random.Random(seed)
    lines = ["description,price"]
    for _ in range(rows):
        words = [draw.choice(list(WORDS)) for _ in range(draw.randint(2, 5))]
        lines.append(f"{' '.join(words)},{1000 + sum(WORDS[word] for word in words) / len(words)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def training_of(path: Path, run: Path, *more: str) -> list[str]:
    flags = ["--data.task=regression", f"--data.path={path}", "--data.label=price", f"--output={run}"]
    return [*flags, *TINY, "--training.epochs=8", *more]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("regression")
    assert train(*training_of(write_numbers(folder / "prices.csv"), folder / "run")) == 0
    return folder / "run"


def test_regression_learns_and_reports(run):
    found = result(run)
    assert found["selected_by"] == "mse"
    assert found["validation"].keys() == {"loss", "mse", "mae", "r2", "pearson", "spearman"}
    assert found["validation"]["r2"] > 0.5
    numbers = found["data"]["splits"]["train"]["numbers"]
    assert 980 <= numbers["least"] < numbers["mean"] < numbers["largest"] <= 1020
    best = min(found["epochs"], key=lambda row: row["mse"])
    assert found["validation"]["mse"] == pytest.approx(best["mse"])


def test_regression_predicts_in_the_labels_scale(run, capsys):
    assert main(["predict", str(run), "superb superb superb", "awful awful awful"]) == 0
    high, low = map(float, capsys.readouterr().out.split())
    assert 970 < low < 1000 < high < 1030
    assert main(["predict", str(run), "--json", "superb superb superb"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"text": "superb superb superb", "value": pytest.approx(high, rel=1e-5)}


def test_regression_evaluates_a_file(run, tmp_path, capsys):
    other = write_numbers(tmp_path / "other.csv", rows=30, seed=5)
    assert main(["evaluate", str(run), "--file", str(other), "--output", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["count"]) == ("other.csv", 30)
    assert found["r2"] > 0.3
    assert (tmp_path / "other.csv.scatter.png").read_bytes().startswith(b"\x89PNG")


def test_regression_is_reported(run, tmp_path):
    assert main(["evaluate", str(run), "--split", "validation"]) == 0
    assert main(["report", str(run), "--output", str(tmp_path / "report.html")]) == 0
    assert " mse" in (tmp_path / "report.html").read_text()


@pytest.mark.usefixtures("unchecked")
def test_regression_exports_in_the_labels_scale(run, tmp_path):
    from transevolve.export.classifier import sample
    from transevolve.export.program import load_program

    output = tmp_path / "program"
    assert main(["export", str(run), "--format", "torch-export", "--output", str(output), "--rounds", "0"]) == 0
    values = load_program(output / "model.pt2")(*sample(2, 6, 20))
    assert all(900 < value < 1100 for value in values.flatten().tolist())
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "hf")]) == 0
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "hf").config.problem_type == "regression"
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "predicts a number" in card
    assert "`price`" in card
    assert "pipeline_tag: text-classification" in card


@pytest.mark.parametrize(
    ("label", "reported"), [("cheap", "line 4: the label 'cheap' is not a number"), ("inf", "'inf'")]
)
def test_a_label_that_is_not_a_number_is_named(label, reported, tmp_path, capsys):
    path = write_numbers(tmp_path / "prices.csv", rows=20)
    lines = path.read_text().splitlines()
    lines[3] = f"fine fine,{label}"
    path.write_text("\n".join(lines) + "\n")
    assert train(*training_of(path, tmp_path / "run")) == 2
    assert reported in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_fillers_do_not_count_as_numbers():
    rows = [{"input_ids": [1], "labels": label} for label in (-100.0, 5.0, -100)]
    assert StandardizedCollator(0, 5.0, 10.0)(rows)["labels"].tolist() == [-10.5, 0.0, -100.0]


def test_calibration_narrows_predictions_that_spread_too_far():
    draw = np.random.RandomState(0)
    labels = draw.normal(100, 5, 60)
    slope, shift = best_line(2 * labels - 90 + draw.normal(0, 1, 60), labels)
    assert slope == pytest.approx(0.5, abs=0.02)
    assert shift == pytest.approx(45, abs=3)
    for outputs, truth in ((labels[:9] * 2, labels[:9]), (-labels, labels), (np.ones(60), labels), (labels, labels)):
        assert best_line(outputs, truth) == UNCALIBRATED


def test_a_refitted_model_keeps_the_calibration_that_validation_chose(tmp_path):
    path = write_numbers(tmp_path / "prices.csv")
    for name, refit in (("run", "false"), ("again", "true")):
        more = ["--model.initialization=small", f"--training.refit={refit}"]
        assert train(*training_of(path, tmp_path / name, *more)) == 0
    chosen, kept = (AutoModelForSequenceClassification.from_pretrained(tmp_path / n).config for n in ("run", "again"))
    assert chosen.calibration == kept.calibration != UNCALIBRATED
    assert chosen.label_mean != kept.label_mean


def test_regression_learns_the_same_in_parts(tmp_path):
    """Batches of 16 in 5 parts: the last one has fillers."""
    path = write_numbers(tmp_path / "prices.csv", rows=60)
    for name, more in (("whole", []), ("parts", ["--training.accumulation=5"])):
        arguments = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=1", *more]
        assert train(*training_of(path, tmp_path / name, *arguments)) == 0
    whole, parts = (result(tmp_path / name)["validation"]["mse"] for name in ("whole", "parts"))
    assert parts == pytest.approx(whole, rel=1e-4)


def test_regression_refuses_label_smoothing(tmp_path, capsys):
    assert train(*training_of(tmp_path / "no.csv", tmp_path / "run", "--model.label_smoothing=0.1")) == 2
    assert "model.label_smoothing applies to classes" in capsys.readouterr().err


class Stars(Classification):
    """Classes that are ordered: a kind written outside the package."""

    name = "stars"
    noun = "a model of stars"
    tasks: ClassVar[Mapping[str, Task]] = {
        "stars": Task("texts and stars", USES, TextTask(max_length=32).load, "stars")
    }
    metrics: ClassVar[Mapping[str, bool]] = {"distance": False, "accuracy": True}

    def assess(self, outputs, labels, config):
        found = super().assess(outputs, labels, config)
        found.metrics["distance"] = float(np.abs(outputs.argmax(-1) - labels).mean())
        return found


@pytest.fixture
def stars():
    before = dict(KINDS), dict(TASKS)
    register(Stars())
    yield
    for registry, content in zip((KINDS, TASKS), before, strict=True):
        registry.clear()
        registry.update(content)


@pytest.mark.usefixtures("stars")
def test_a_kind_from_outside_trains_evaluates_and_predicts(tmp_path, capsys):
    path, run = tmp_path / "stars.csv", tmp_path / "run"
    rows = [f"a {('bad', 'plain', 'good')[n % 3]} film,{n % 3 + 1}" for n in range(90)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    assert train("--data.task=stars", f"--data.path={path}", f"--output={run}", *TINY, "--training.epochs=6") == 0
    found = result(run)
    assert (found["selected_by"], found["task"]) == ("distance", "stars")
    assert found["validation"]["distance"] == min(row["distance"] for row in found["epochs"])
    capsys.readouterr()
    assert main(["evaluate", str(run), "--split", "validation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["distance"] == found["validation"]["distance"]
    assert main(["predict", str(run), "a good film"]) == 0
    assert capsys.readouterr().out.startswith("3\t")


def test_metrics_have_directions():
    directions = {name: higher_is_better(name) for name in ("loss", "mse", "mae", "accuracy", "bleu", "r2")}
    assert directions == {"loss": False, "mse": False, "mae": False, "accuracy": True, "bleu": True, "r2": True}


@pytest.mark.parametrize("name", KINDS)
def test_a_recipe_without_settings_resolves(name):
    recipe = Recipe()
    recipe.data.task = next(task for task, found in TASKS.items() if found.kind == name)
    assert resolve(recipe) is KINDS[name]
    assert recipe.training.select == next(iter(KINDS[name].metrics))


def test_python_predicts_and_refuses_the_wrong_command(run):
    model = load(run)
    assert [prediction.text for prediction in model.predict(["fine", ""])] == ["fine", ""]
    with pytest.raises(UserError, match="use `transevolve predict`"):
        model.translate(["fine"])


@pytest.mark.parametrize(
    ("write", "settings", "expected"),
    [
        (write_conll, {}, 3),
        (write_conll, {"training.epochs": 4}, 0),
        (write_pairs, {"data.text": ["premise", "hypothesis"]}, 5),
        (write_numbers, {"data.task": "regression", "data.label": "price"}, 0),
    ],
    ids=["tags", "epochs set", "pairs", "numbers"],
)
def test_patience_follows_from_the_kind_unless_epochs_are_set(write, settings, expected, tmp_path):
    path = tmp_path / {write_conll: "a.conll", write_pairs: "a.tsv"}.get(write, "a.csv")
    write(path)
    recipe = load_recipe(None, {"data.path": str(path), "data.cache": str(tmp_path), **settings})
    kind = resolve(recipe)
    decide(kind, recipe, load_data(recipe.data))
    assert recipe.training.patience == expected


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_step_whose_memory_is_measured_is_one_of_the_kind(kind):
    """The model of its Auto class takes the sample labels and learns from them."""
    labels = {"num_labels": 3} if "Classification" in kind.head and kind.name != "regression" else {"num_labels": 1}
    labels |= {"problem_type": "multi_label_classification"} if kind.name == "multilabel" else {}
    shape = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "block_depth": 1}
    built = build_transevolve(kind.head, **shape, **labels)
    model = kind.auto_class.from_config(built.config)
    assert type(model) is type(built)
    ids = torch.randint(0, 40, (2, 8))
    loss = model(input_ids=ids, **kind.sample_labels(ids, model.config)).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert loss > 0 or kind.name == "regression"
