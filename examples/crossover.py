"""The fastest exact backend at short lengths: attention alone, timed in turns, forward and training.

python examples/crossover.py
"""

import time
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from transevolve import EvolvedAttention

BACKENDS = ("literal", "once", "fused")
SHAPES = [(16, 64), (32, 64), (64, 64), (128, 32), (256, 16), (512, 8)]


def seconds(layer: EvolvedAttention, x: torch.Tensor, backend: str, training: bool) -> float:
    """All depths of one block, each on the output of the one before."""
    start = time.perf_counter()
    with torch.set_grad_enabled(training):
        state, y = layer.begin(x, backend=backend), x
        for l in range(1, layer.depth + 1):
            y = y + layer(state, y, l)
        if training:
            y.sum().backward()
    return time.perf_counter() - start


def main(rounds: int = 12) -> None:
    table = Table(title=f"Milliseconds for six depths, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for column in ("tokens x batch", *(f"{b}, {mode}" for mode in ("forward", "training") for b in BACKENDS)):
        table.add_column(column, justify="right")
    for n, batch in SHAPES:
        layer, x, cells = EvolvedAttention(256, 8, 6), torch.randn(batch, n, 256), []
        for training in (False, True):
            runs = [[seconds(layer, x, backend, training) for backend in BACKENDS] for _ in range(rounds)]
            cells += [f"{1e3 * median(column):.0f}" for column in zip(*runs[2:], strict=True)]
        table.add_row(f"{n} x {batch}", *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
