"""Attention evolving over depth: a table, a picture, and the time each backend takes.

python examples/evolution.py [SENTENCE] [--output FOLDER]
"""

import argparse
import time
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from transevolve import EvolvedAttention

SENTENCE = "particles that meet once and then drift apart"


def evolve(words: list[str], depth: int = 6, width: int = 256, heads: int = 8):
    """The attention matrix and the key drift of every depth, from one initial condition."""
    torch.manual_seed(0)
    vectors = {word: torch.randn(width) for word in sorted(set(words))}
    x = torch.stack([vectors[word] for word in words])[None]
    layer = EvolvedAttention(width, heads, depth).eval()
    with torch.no_grad():
        state = layer.begin(x)
        matrices = torch.stack([state.attention(l)[0] for l in range(1, depth + 1)])
        drift = state.evolution.initial.drift[:, 0]
    return layer, matrices, drift


def table(matrices: torch.Tensor, drift: torch.Tensor) -> Table:
    found = Table(title="Attention computed once, evolved over depth (random weights)")
    for column in ("depth", "drift, max - min over words", "mass moved since depth 1", "entropy (bits)"):
        found.add_column(column, justify="right")
    for l, (matrix, b) in enumerate(zip(matrices, drift, strict=True), 1):
        moved = (matrix - matrices[0]).abs().sum(-1).mean() / 2
        entropy = -(matrix * matrix.clamp(min=1e-30).log2()).sum(-1).mean()
        spread = (b.amax(-1) - b.amin(-1)).mean()
        found.add_row(str(l), f"{spread:.2f}", f"{100 * moved:.1f} %", f"{entropy:.2f}")
    return found


def timings(layer: EvolvedAttention, n: int = 1024) -> Table:
    """All depths at length n by each backend: time, and difference to the paper's equation."""
    x = torch.randn(1, n, layer.hidden_size)

    def run(backend: str) -> tuple[torch.Tensor, float]:
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            with torch.no_grad():
                state = layer.begin(x, backend=backend)
                y = torch.stack([layer(state, x, l) for l in range(1, layer.depth + 1)])
            best = min(best, time.perf_counter() - start)
        return y, best

    results = {backend: run(backend) for backend in ("literal", "once", "fused", "linear")}
    expected, slow = results["literal"]
    found = Table(title=f"Six depths at {n} tokens")
    for column in ("backend", "milliseconds", "speed", "largest difference"):
        found.add_column(column, justify="right")
    for backend, (y, seconds) in results.items():
        note = "an approximation" if backend == "linear" else f"{float((y - expected).abs().max()):.0e}"
        found.add_row(backend, f"{1e3 * seconds:.0f}", f"{slow / seconds:.1f}x", note)
    return found


def picture(words: list[str], matrices: torch.Tensor, drift: torch.Tensor, path: Path, head: int = 0) -> None:
    depth = len(matrices)
    figure, axes = plt.subplots(2, depth, figsize=(2.1 * depth, 4.6), height_ratios=(3, 1.2), layout="constrained")
    highest = float(matrices[:, head].max())
    limit = 1.1 * float(drift[:, head].abs().max())
    for l in range(depth):
        above, below = axes[0, l], axes[1, l]
        above.imshow(matrices[l, head], vmin=0, vmax=highest, cmap="magma")
        above.set_title(f"depth {l + 1}", fontsize=10)
        above.set_xticks([])
        above.set_yticks(range(len(words)), words if l == 0 else [], fontsize=8)
        below.bar(range(len(words)), drift[l, head], color="tab:red")
        below.axhline(0, color="black", linewidth=0.6)
        below.set_ylim(-limit, limit)
        below.set_xticks(range(len(words)), words, rotation=90, fontsize=7)
        below.tick_params(axis="y", labelsize=7, labelleft=l == 0)
    axes[0, 0].set_ylabel("query", fontsize=8)
    axes[1, 0].set_ylabel("key drift", fontsize=8)
    figure.suptitle("One head: attention is computed once, then every key drifts with depth", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentence", nargs="?", default=SENTENCE)
    parser.add_argument("--output", type=Path, default=Path("demo"))
    arguments = parser.parse_args()
    words = arguments.sentence.split()
    if len(words) < 2:
        parser.error("the sentence needs at least two words")
    layer, matrices, drift = evolve(words)
    console = Console()
    console.print(table(matrices, drift))
    console.print(timings(layer))
    path = arguments.output / "evolution.png"
    picture(words, matrices, drift, path)
    console.print(f"wrote {path}")


if __name__ == "__main__":
    main()
