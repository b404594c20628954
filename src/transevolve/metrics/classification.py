"""Classification metrics: loss, accuracy, macro F1, and scores per class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

ZERO: Any = 0  # scikit-learn declares `zero_division` as a string only


@dataclass(frozen=True)
class ClassScore:
    label: str
    precision: float
    recall: float
    f1: float
    rows: int


@dataclass(frozen=True)
class ClassificationScores:
    """`confusion` counts rows by true class (down) and predicted class (across).

    Macro F1 is the mean over the classes that occur.
    """

    loss: float
    accuracy: float
    macro_f1: float
    classes: list[ClassScore]
    confusion: Int[np.ndarray, "classes classes"]


def class_scores(labels: Sequence[str], columns: Any) -> list[ClassScore]:
    """The scores of each class, from the columns of scikit-learn: precision, recall, F1, rows."""
    rows = zip(labels, *(np.asarray(column).tolist() for column in columns), strict=True)
    return [ClassScore(label, *scores) for label, *scores in rows]


def classification_scores(
    logits: Float[np.ndarray, "rows classes"], truth: Int[np.ndarray, " rows"], labels: list[str]
) -> ClassificationScores:
    from scipy.special import log_softmax
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    found, numbers = logits.argmax(-1), np.arange(len(labels))
    classes = class_scores(labels, precision_recall_fscore_support(truth, found, labels=numbers, zero_division=ZERO))
    return ClassificationScores(
        loss=float(-log_softmax(logits, axis=-1)[np.arange(len(truth)), truth].mean()),
        accuracy=float(accuracy_score(truth, found)),
        macro_f1=float(np.mean([score.f1 for score in classes if score.rows])),
        classes=classes,
        confusion=confusion_matrix(truth, found, labels=numbers),
    )
