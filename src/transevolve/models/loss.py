"""Losses: Hugging Face's three for classification, and the paper's smoothed cross entropy for translation."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, log_softmax, mse_loss


def classification_loss(
    logits: Float[Tensor, "batch labels"],
    labels: Tensor,
    problem_type: str | None,
    smoothing: float = 0.0,
    count: Int[Tensor, ""] | int | None = None,
) -> Float[Tensor, ""]:
    """The loss of `problem_type`; if None, regression for one label, else by the dtype of `labels`.

    It is the mean over labels, or the sum divided by `count` if the batch is part of a larger one.
    """
    reduction = "mean" if count is None else "sum"
    divisor = 1 if count is None else count
    integer = not labels.is_floating_point()
    if problem_type is None:
        single = "single_label_classification" if integer else "multi_label_classification"
        problem_type = "regression" if logits.shape[-1] == 1 else single
    if smoothing and problem_type != "single_label_classification":
        raise ValueError(f"label_smoothing={smoothing} applies to single-label classification, not to {problem_type}")
    if problem_type == "regression":
        values = labels.to(logits.dtype).reshape(logits.squeeze(-1).shape)
        return mse_loss(logits.squeeze(-1), values, reduction=reduction) / divisor
    if problem_type == "single_label_classification" and smoothing:
        return smoothed_cross_entropy(logits, labels.reshape(-1), smoothing, count)
    if problem_type == "single_label_classification":
        return cross_entropy(logits, labels.reshape(-1), reduction=reduction) / divisor
    if labels.shape != logits.shape:
        raise ValueError(
            f"multi-label labels must be a 0/1 matrix of shape {tuple(logits.shape)}, got {tuple(labels.shape)}"
        )
    return binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction=reduction) / divisor


def smoothed_cross_entropy(
    logits: Float[Tensor, "*batch vocab"],
    labels: Int[Tensor, "*batch"],
    smoothing: float,
    count: Int[Tensor, ""] | int | None = None,
    ignore_index: int = -100,
) -> Float[Tensor, ""]:
    """Cross entropy with 1 - eps on the gold class and eps/(V-1) on every other, minus the entropy of that target, so
    that a perfect model scores 0 (as in tensor2tensor and the authors' code).

    It is the mean over tokens, or the sum divided by `count` if the batch is part of a larger one.
    """
    vocab = logits.shape[-1]
    real = labels != ignore_index
    gold = labels.masked_fill(~real, 0)
    log_p = log_softmax(logits.float() if logits.dtype.itemsize < 4 else logits, dim=-1)
    at_gold = log_p.gather(-1, gold[..., None])[..., 0]
    loss = -at_gold
    if smoothing:
        off = smoothing / (vocab - 1)
        entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(off)
        loss = -(1 - smoothing - off) * at_gold - off * log_p.sum(-1) - entropy
    return torch.where(real, loss, 0.0).sum() / (real.sum() if count is None else count)
