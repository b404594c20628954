"""The fastest exact form of attention at short lengths: attention alone, timed in turns, forward and training.

    python examples/crossover.py
    python examples/crossover.py --precision bf16

`stored` is what `auto` uses for the shortest rows, and other forms where the drift ranges too far to be factored out of
the softmax.
"""

import argparse
import time
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from transevolve import EvolvedAttention
from transevolve.evolution.backends import BACKENDS
from transevolve.evolution.backends.backend import Backend
from transevolve.evolution.backends.stored import StoredBackend

FORMS = [BACKENDS[name] for name in ("literal", "once", "fused")] + [StoredBackend()]
SHAPES = [(16, 64), (32, 64), (64, 64), (128, 32), (256, 16), (512, 8)]


def seconds(layer: EvolvedAttention, x: torch.Tensor, form: Backend, training: bool, low: bool) -> float:
    """All depths of one block, each on the output of the one before."""
    start = time.perf_counter()
    with torch.set_grad_enabled(training):
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            state, y = layer.begin(x, backend=form), x
            for l in range(1, layer.depth + 1):
                y = y + layer(state, y, l)
        if training:
            y.sum().backward()
    return time.perf_counter() - start


def main(rounds: int = 12) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    low = parser.parse_args().precision == "bf16"
    table = Table(title=f"Milliseconds for six depths, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for column in ("tokens x batch", *(f"{form.name}, {mode}" for mode in ("forward", "training") for form in FORMS)):
        table.add_column(column, justify="right")
    for n, batch in SHAPES:
        layer, x, cells = EvolvedAttention(256, 8, 6), torch.randn(batch, n, 256), []
        for training in (False, True):
            runs = [[seconds(layer, x, form, training, low) for form in FORMS] for _ in range(rounds)]
            cells += [f"{1e3 * median(column):.0f}" for column in zip(*runs[2:], strict=True)]
        table.add_row(f"{n} x {batch}", *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
