"""The paper's learning rate (section 6.3)."""


def paper_learning_rate(step: int, lr_max: float, hidden_size: int, warmup: int) -> float:
    """lr_max / sqrt(d) * min(step^-0.5, warmup^-1.5 * step), steps counted from 1.

    Differs from the paper: `min`, where it prints `max` (which would never decay); its code has `min` too.
    """
    if step <= 0:
        return 0.0
    return lr_max * hidden_size**-0.5 * min(step**-0.5, step * warmup**-1.5)
