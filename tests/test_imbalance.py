"""Rare classes: balanced weights, the baseline and the warning; and a hint for numbers that are read as classes."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn.functional import cross_entropy

from training_support import TINY, result, train
from transevolve.cli import main
from transevolve.config.recipe import TrainingOptions
from transevolve.kinds.imbalance import balanced_weights, hidden_rare_classes, weighted_cross_entropy
from transevolve.metrics.classification import classification_scores
from transevolve.models.loss import smoothed_cross_entropy


def write_rare(path: Path, rows: int = 150) -> Path:
    """One row in ten is spam, and only some of its words show it."""
    draw, lines = random.Random(0), ["text,label"]
    for number in range(rows):
        rare = number % 10 == 0
        words = draw.choices(["the", "a", "of", "mail", "offer"], k=8)
        if rare:
            words[draw.randrange(8)] = "win"
        lines.append(f"{' '.join(words)},{'spam' if rare else 'ham'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_balanced_weights_are_scikit_learns():
    labels = np.array([0] * 7 + [1] * 2 + [2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert balanced_weights(labels, 3).numpy() == pytest.approx(expected)


def test_weighted_loss():
    logits, labels = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, -100, 1])
    weights, outputs = torch.tensor([0.5, 1.0, 3.0]), SimpleNamespace(logits=logits)
    total = cross_entropy(logits, labels, weights, reduction="sum")
    torch.testing.assert_close(weighted_cross_entropy(outputs, labels, 4, weights=weights), total / 4)
    torch.testing.assert_close(weighted_cross_entropy(outputs, labels, weights=weights), total / 5)
    smoothed = weighted_cross_entropy(outputs, labels, weights=torch.ones(3), smoothing=0.1)
    torch.testing.assert_close(smoothed, smoothed_cross_entropy(logits, labels, 0.1))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rare")
    data = write_rare(folder / "mail.csv")
    flags = ["--training.class_weights=balanced", "--training.select=macro_f1", "--training.epochs=2"]
    assert train(f"--data.path={data}", f"--output={folder / 'run'}", *TINY, *flags) == 0
    return folder / "run"


def test_weights_find_the_rare_class(run):
    found = result(run)
    baseline = found["baseline"]["validation"]
    assert 0.85 < baseline["accuracy"] < 0.95
    assert baseline["macro_f1"] < 0.5
    assert found["validation"]["macro_f1"] > baseline["macro_f1"] + 0.2


def test_a_score_that_hides_the_rare_class_is_warned_of(run, tmp_path, capsys):
    hidden = tmp_path / "hidden.csv"
    hidden.write_text(write_rare(hidden).read_text().replace("win", "mail"))
    assert main(["evaluate", str(run), "--file", str(hidden), "--output", str(tmp_path)]) == 0
    assert "much higher than macro F1" in capsys.readouterr().err


def test_warnings():
    labels, names = np.array([0] * 9 + [1]), ["ham", "spam"]
    hidden = classification_scores(np.tile([1.0, 0.0], (10, 1)), labels, names)
    [warning] = hidden_rare_classes(hidden, TrainingOptions())
    assert warning.startswith("warning: accuracy 0.9000 is much higher than macro F1 0.4737")
    assert "it finds less than half of the rows of 'spam'" in warning
    assert warning.endswith("Try --training.class_weights balanced and --training.select macro_f1")
    [warning] = hidden_rare_classes(hidden, TrainingOptions(class_weights="balanced"))
    assert warning.endswith("Try --training.select macro_f1")
    [warning] = hidden_rare_classes(hidden, TrainingOptions(class_weights="balanced", select="macro_f1"))
    assert "Try" not in warning
    seen = classification_scores(np.eye(2)[labels], labels, names)
    assert hidden_rare_classes(seen, TrainingOptions()) == []


def test_many_numbers_as_classes_give_a_hint(tmp_path, capsys):
    rows = [f"text {n},{n % 25 / 10}" for n in range(100)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    short = [*TINY, "--training.epochs=1"]
    assert train(f"--data.path={tmp_path / 'a.csv'}", f"--output={tmp_path / 'run'}", *short) == 0
    printed = "".join(capsys.readouterr())
    assert "the 25 labels are all numbers; to predict numbers, add --data.task regression" in printed
    assert "best constant prediction on validation: " in printed
    (tmp_path / "b.csv").write_text("\n".join(["text,label", *(f"text {n},{n / 7}" for n in range(50))]) + "\n")
    assert train(f"--data.path={tmp_path / 'b.csv'}", f"--output={tmp_path / 'run-b'}", *TINY) == 2
    assert "add --data.task regression" in capsys.readouterr().err


def test_regression_refuses_class_weights(tmp_path, capsys):
    flags = ["--data.task=regression", "--data.path=a.csv", "--training.class_weights=balanced"]
    assert train(*flags, f"--output={tmp_path / 'run'}") == 2
    assert "training.class_weights applies to classes" in capsys.readouterr().err
