"""Multi-label metrics: micro and macro F1, exact matches, and thresholds."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .classification import ZERO, ClassScore, class_scores

UNDECIDED = 0.5


@dataclass(frozen=True)
class LabelSetScores:
    """Macro F1 is the mean over the labels that occur; an exact match has all labels of its row right."""

    loss: float
    micro_f1: float
    macro_f1: float
    exact_match: float
    labels: list[ClassScore]


def label_set_scores(
    logits: Float[np.ndarray, "rows labels"],
    truth: Int[np.ndarray, "rows labels"],
    thresholds: Float[np.ndarray, " labels"],
    names: list[str],
) -> LabelSetScores:
    from scipy.special import expit
    from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

    found = (expit(logits) >= thresholds).astype(int)
    labels = class_scores(names, precision_recall_fscore_support(truth, found, average=None, zero_division=ZERO))
    return LabelSetScores(
        loss=float((np.logaddexp(0, logits) - truth * logits).mean()),
        micro_f1=float(f1_score(truth, found, average="micro", zero_division=ZERO)),
        macro_f1=float(np.mean([score.f1 for score in labels if score.rows] or [0.0])),
        exact_match=float(accuracy_score(truth, found)),
        labels=labels,
    )


def best_thresholds(
    logits: Float[np.ndarray, "rows labels"], truth: Int[np.ndarray, "rows labels"]
) -> Float[np.ndarray, " labels"]:
    """The threshold of each label with the best F1; 0.5 if it cannot be chosen.

    It is halfway to the next lower probability among the rows; ties are resolved towards 0.5.
    """
    from scipy.special import expit
    from sklearn.metrics import precision_recall_curve

    chosen = np.full(truth.shape[1], UNDECIDED)
    for label, (probabilities, marks) in enumerate(zip(expit(logits).T, truth.T, strict=True)):
        if not 0 < marks.sum() < len(marks):
            continue
        precision, recall, levels = precision_recall_curve(marks, probabilities)
        f1 = 2 * precision[:-1] * recall[:-1] / np.maximum(precision[:-1] + recall[:-1], 1e-12)
        halfway = (levels + np.concatenate([[0.0], levels[:-1]])) / 2
        best = np.flatnonzero(f1 >= f1.max() - 1e-12)
        chosen[label] = halfway[best[np.abs(halfway[best] - UNDECIDED).argmin()]]
    return chosen
