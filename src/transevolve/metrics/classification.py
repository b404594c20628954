"""Classification metrics: loss, accuracy, macro F1, and scores per class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int


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


def classification_scores(
    logits: Float[np.ndarray, "rows classes"], truth: Int[np.ndarray, " rows"], labels: list[str]
) -> ClassificationScores:
    from scipy.special import log_softmax
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    found, numbers = logits.argmax(-1), np.arange(len(labels))
    zero: Any = 0
    columns: Any = precision_recall_fscore_support(truth, found, labels=numbers, zero_division=zero)
    classes = [
        ClassScore(label, float(precision), float(recall), float(f1), int(rows))
        for label, precision, recall, f1, rows in zip(labels, *columns, strict=True)
    ]
    return ClassificationScores(
        loss=float(-log_softmax(logits, axis=-1)[np.arange(len(truth)), truth].mean()),
        accuracy=float(accuracy_score(truth, found)),
        macro_f1=float(np.mean([score.f1 for score in classes if score.rows])),
        classes=classes,
        confusion=confusion_matrix(truth, found, labels=numbers),
    )
