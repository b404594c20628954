"""Optimizers and learning rate schedules. To add one, write a function and register it here."""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from ..config.learning import PLAIN
from ..config.recipe import TrainingOptions
from .parameter_groups import parameter_groups


def paper_learning_rate(step: int, lr_max: float, hidden_size: int, warmup: float) -> float:
    """lr_max / sqrt(d) * min(step^-0.5, warmup^-1.5 * step), steps counted from 1.

    Differs from the paper, which prints `max`, but would then never decay; the authors' code uses `min` too.
    """
    if step <= 0:
        return 0.0
    return lr_max * hidden_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


def warmup_steps(options: TrainingOptions, total: int) -> float:
    """The number of warmup steps; below 1, `warmup` is a fraction of all steps."""
    return options.warmup if options.warmup >= 1 else max(1.0, round(options.warmup * total))


# After warmup: maps the fraction of remaining steps to the fraction of the peak learning rate.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: 0.5 - 0.5 * math.cos(math.pi * left),
    "constant": lambda left: 1.0,
}
PAPER = "paper"


def learning_rate(step: int, total: int, hidden_size: int, options: TrainingOptions) -> float:
    """The learning rate at a step, counted from 1, of `total`."""
    warmup = warmup_steps(options, total)
    if options.schedule == PAPER:
        return paper_learning_rate(step, options.lr_max, hidden_size, warmup)
    peak = PLAIN["training.learning_rate"] if options.learning_rate is None else options.learning_rate
    if step < warmup:
        return peak * step / warmup
    left = min(1.0, max(0.0, (total - step + 1) / max(total - warmup + 1, 1)))
    return peak * SCHEDULES[options.schedule](left)


def _adamw(groups: list[dict], options: TrainingOptions) -> torch.optim.Optimizer:
    beta2 = 0.999 if options.beta2 is None else options.beta2
    eps = 1e-8 if options.eps is None else options.eps
    fused = None if options.fsdp or options.deepspeed else True
    return torch.optim.AdamW(groups, lr=1.0, betas=(options.beta1, beta2), eps=eps, fused=fused)


OPTIMIZERS: dict[str, Callable[[list[dict], TrainingOptions], torch.optim.Optimizer]] = {"adamw": _adamw}


def build_optimizer(model: nn.Module, options: TrainingOptions) -> torch.optim.Optimizer:
    """The optimizer, with relative learning rates that `build_schedule` scales."""
    rates = {"encoder": options.encoder_rate, "embedding": options.embedding_rate}
    rates = {kind: rate for kind, rate in rates.items() if rate is not None}
    groups = parameter_groups(model.named_parameters(), options.weight_decay or 0.0, rates)
    return OPTIMIZERS[options.optimizer](groups, options)


def build_schedule(
    optimizer: torch.optim.Optimizer, options: TrainingOptions, total: int, hidden_size: int
) -> LambdaLR:
    return LambdaLR(optimizer, lambda done: learning_rate(done + 1, total, hidden_size, options))
