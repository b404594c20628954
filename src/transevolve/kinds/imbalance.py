"""Imbalanced classes: balanced class weights, and a warning if accuracy hides rare classes."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..config.recipe import TrainingOptions
from ..core.errors import quoted
from ..metrics.classification import ClassificationScores
from ..models.loss import smoothed_cross_entropy

GAP, UNEQUAL, MISSED, NAMED = 0.1, 1.5, 0.5, 3
REMEDIES = {"class_weights": "balanced", "select": "macro_f1"}


def balanced_weights(labels: Int[np.ndarray, " rows"], classes: int) -> Float[Tensor, " classes"]:
    """rows / (classes x rows of the class), as in scikit-learn; the mean over rows is 1."""
    counts = np.bincount(labels, minlength=classes)
    return torch.tensor(len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1)), dtype=torch.float32)


def weighted_cross_entropy(
    outputs: Any,
    labels: Int[Tensor, " batch"],
    num_items_in_batch: Tensor | int | None = None,
    *,
    weights: Float[Tensor, " classes"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Cross entropy with the weight of each row's class."""
    logits, real = outputs.logits, labels >= 0
    losses = row_losses(logits, labels, smoothing)
    weighted = torch.where(real, losses * weights.to(logits)[labels.clamp(min=0)], 0.0)
    return weighted.sum() / (real.sum() if num_items_in_batch is None else num_items_in_batch)


def row_losses(
    logits: Float[Tensor, "batch classes"], labels: Int[Tensor, " batch"], smoothing: float
) -> Float[Tensor, " batch"]:
    if not smoothing:
        return cross_entropy(logits, labels, reduction="none")
    return torch.vmap(lambda row, label: smoothed_cross_entropy(row, label, smoothing, 1))(logits, labels)


def hidden_rare_classes(found: ClassificationScores, training: TrainingOptions) -> list[str]:
    """A warning if some classes are rare and accuracy looks much better than macro F1, with what was not tried."""
    rows = [score.rows for score in found.classes if score.rows]
    if found.accuracy - found.macro_f1 < GAP or max(rows) < UNEQUAL * min(rows):
        return []
    missed = sorted((s for s in found.classes if s.rows and s.recall < MISSED), key=lambda score: score.recall)
    named = quoted([score.label for score in missed[:NAMED]]) + (" and others" if len(missed) > NAMED else "")
    rest = f"; it finds less than half of the rows of {named}" if missed else ""
    untried = [f"--training.{name} {value}" for name, value in REMEDIES.items() if getattr(training, name) != value]
    advice = f". Try {' and '.join(untried)}" if untried else ""
    return [
        f"warning: accuracy {found.accuracy:.4f} is much higher than macro F1 {found.macro_f1:.4f}: the model is worse"
        f" at rare classes{rest}{advice}"
    ]
