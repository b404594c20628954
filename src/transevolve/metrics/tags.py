"""Tagging metrics: entities by the rules of seqeval and conlleval, or single tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .classification import ZERO, ClassScore

OUTSIDE, PREFIXES = "O", ("B-", "I-", "E-", "S-", "L-", "U-", "M-")
TOTALS = ("micro avg", "macro avg", "weighted avg", "accuracy")
Tags = Sequence[Sequence[str]]


@dataclass(frozen=True)
class TagScores:
    """`f1` is over whole entities, or the mean over tags if tags mark no entities. `accuracy` is over words."""

    f1: float
    precision: float
    recall: float
    accuracy: float
    classes: list[ClassScore]
    entities: bool


def marks_entities(names: Sequence[str]) -> bool:
    """Whether tags are like B-PER, I-PER and O."""
    return any(name != OUTSIDE for name in names) and all(
        name == OUTSIDE or name.startswith(PREFIXES) for name in names
    )


def tag_scores(truth: Tags, found: Tags, names: Sequence[str]) -> TagScores:
    from sklearn.metrics import accuracy_score

    words, answers = list(chain.from_iterable(truth)), list(chain.from_iterable(found))
    entities = marks_entities(names)
    report = _entities(truth, found) if entities else _tags(words, answers)
    total = report["micro avg"] if entities else report["macro avg"]
    classes = [
        ClassScore(name, float(row["precision"]), float(row["recall"]), float(row["f1-score"]), int(row["support"]))
        for name, row in report.items()
        if name not in TOTALS
    ]
    return TagScores(
        f1=float(total["f1-score"]),
        precision=float(total["precision"]),
        recall=float(total["recall"]),
        accuracy=float(accuracy_score(words, answers)),
        classes=classes,
        entities=entities,
    )


def _entities(truth: Tags, found: Tags) -> dict[str, Any]:
    from seqeval.metrics import classification_report
    from seqeval.metrics.sequence_labeling import get_entities

    if not get_entities(list(truth)) and not get_entities(list(found)):
        return {"micro avg": {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}}
    report: Any = classification_report(list(truth), list(found), output_dict=True, zero_division=ZERO)
    return report


def _tags(truth: list[str], found: list[str]) -> dict[str, Any]:
    from sklearn.metrics import classification_report

    present = sorted(set(truth))
    report: Any = classification_report(truth, found, labels=present, output_dict=True, zero_division=ZERO)
    return report
