"""Plots an observation: particles, attention at the ends of a block, drift, and the readout of each depth."""

from pathlib import Path
from typing import Any

import numpy as np

from ..core.figures import TIMES, new_figure, plain, save
from .observe import Observation
from .projection import apart, project

MOST_LABELS = 30


def write_picture(path: Path, seen: Observation, limit: int) -> None:
    """Matrices and particles show the first `limit` tokens."""
    shown = min(limit, len(seen.tokens))
    tokens = [plain(token) for token in seen.tokens[:shown]]
    head = int(seen.drift.std(-1).mean(0).argmax())
    figure = new_figure(15, 13)
    panels = figure.subplot_mosaic([["particles", "particles", "readout"], ["first", "last", "drift"]])
    _particles(panels["particles"], seen.states[:, :shown], tokens)
    _readout(panels["readout"], seen)
    last = [k for k, (block, _) in enumerate(seen.depths) if block == 1][-1]
    largest = seen.attention[[0, last], head, :shown, :shown].max()
    for name, k in (("first", 0), ("last", last)):
        _attention(panels[name], seen.attention[k, head, :shown, :shown], tokens, largest)
        panels[name].set_title(f"attention at depth {k + 1}, head {head + 1}:\nrows attend to columns")
    _drift(panels["drift"], seen.drift.std(-1))
    best = seen.prediction
    words = plain(" ".join(seen.tokens[:24])) + (" …" if len(seen.tokens) > 24 else "")
    figure.suptitle(f"{plain(seen.labels[best])} ({100 * seen.readout[-1, best]:.1f} %): {words}", fontsize=13)
    save(figure, path)


def _particles(axes: Any, states: np.ndarray, tokens: list[str]) -> None:
    from matplotlib import colormaps

    points, kept = project(apart(states))
    colours = colormaps["viridis"](np.linspace(0, 0.9, len(tokens)))
    for i, colour in enumerate(colours):
        axes.plot(points[:, i, 0], points[:, i, 1], "-", color=colour, alpha=0.5, linewidth=1.2)
        axes.plot(*points[0, i], "o", color=colour, markersize=4, markerfacecolor="white")
        axes.plot(*points[-1, i], "o", color=colour, markersize=7)
        if i < MOST_LABELS:
            axes.annotate(tokens[i], points[-1, i], textcoords="offset points", xytext=(6, 3), fontsize=9)
    axes.set(xticks=[], yticks=[])
    axes.set_aspect("equal", "datalim")
    axes.set_title(
        f"tokens as particles, relative to each other: hollow at the start ({100 * kept:.0f} % of the variance)"
    )


def _readout(axes: Any, seen: Observation) -> None:
    for c in np.argsort(-seen.readout.max(0), kind="stable")[:8]:
        axes.plot(range(len(seen.readout)), seen.readout[:, c], "o-", label=plain(seen.labels[c]))
    axes.set(xlabel="after depth", ylabel="probability", ylim=(-0.02, 1.02), xticks=range(len(seen.readout)))
    axes.set_title("prediction if the model stopped here")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)


def _attention(axes: Any, matrix: np.ndarray, tokens: list[str], largest: float) -> None:
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=largest)
    size = float(np.clip(260 / len(tokens), 4, 9))
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=size)
    axes.set_yticks(range(len(tokens)), tokens, fontsize=size)


def _drift(axes: Any, strength: np.ndarray) -> None:
    axes.imshow(strength, cmap="Oranges", vmin=0, vmax=max(float(strength.max()), 1e-9), aspect="auto")
    for l, row in enumerate(strength):
        for h, value in enumerate(row):
            dark = value > 0.6 * strength.max() > 0
            factor = f"{TIMES}{np.exp(value):.1f}"
            axes.text(h, l, factor, ha="center", va="center", fontsize=9, color="white" if dark else "black")
    depths, heads = strength.shape
    axes.set_xticks(range(heads), [str(h + 1) for h in range(heads)])
    axes.set_yticks(range(depths), [str(l + 1) for l in range(depths)])
    axes.set(xlabel="head", ylabel="depth", title="the drift's typical factor on a key")
