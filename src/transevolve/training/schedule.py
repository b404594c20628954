"""Learning rates: the paper's (section 6.3), and the usual ones."""

import math

from ..config.recipe import TrainingOptions


def paper_learning_rate(step: int, lr_max: float, hidden_size: int, warmup: float) -> float:
    """lr_max / sqrt(d) * min(step^-0.5, warmup^-1.5 * step), steps counted from 1.

    Differs from the paper: `min`, where it prints `max` (which would never decay); its code has `min` too.
    """
    if step <= 0:
        return 0.0
    return lr_max * hidden_size**-0.5 * min(step**-0.5, step * warmup**-1.5)


def warmup_steps(options: TrainingOptions, total: int) -> float:
    """Steps of warm-up: as said, or that share of all steps."""
    return options.warmup if options.warmup >= 1 else max(1.0, round(options.warmup * total))


def learning_rate(step: int, total: int, hidden_size: int, options: TrainingOptions) -> float:
    """The rate at a step, counted from 1, of `total`."""
    warmup = warmup_steps(options, total)
    if options.schedule == "paper":
        return paper_learning_rate(step, options.lr_max, hidden_size, warmup)
    if step < warmup:
        return options.learning_rate * step / warmup
    if options.schedule == "constant":
        return options.learning_rate
    left = min(1.0, max(0.0, (total - step + 1) / max(total - warmup + 1, 1)))
    return options.learning_rate * (left if options.schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left))
