"""Figures of a run: loss and metric curves, and the confusion matrix."""

from pathlib import Path
from typing import Any

import numpy as np

from ..core.figures import integer_ticks, new_figure, plain, save


def write_curves(path: Path, rows: list[dict[str, Any]], title: str) -> None:
    """Plots the training loss and validation metrics over steps."""
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    scored = [row for row in rows if "eval_loss" in row]
    other = next((k for row in scored for k in row if k.startswith("eval_") and k != "eval_loss"), None)
    figure = new_figure(10, 4)
    axes = figure.subplots(1, 2 if other else 1, squeeze=False)
    if losses:
        axes[0, 0].plot(*zip(*losses, strict=True), label="training", alpha=0.7)
    axes[0, 0].plot([r["step"] for r in scored], [r["eval_loss"] for r in scored], "o-", label="validation")
    axes[0, 0].set(xlabel="step", ylabel="loss", title=plain(title))
    axes[0, 0].legend()
    if other:
        name = other.removeprefix("eval_")
        axes[0, 1].plot([r["step"] for r in scored], [r[other] for r in scored], "o-", color="C1")
        axes[0, 1].set(xlabel="step", ylabel=f"validation {name}", title=name)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        integer_ticks(axis)
    save(figure, path, dpi=130)


def write_confusion(path: Path, counts: np.ndarray, labels: list[str], title: str) -> None:
    """Plots the confusion matrix: counts as numbers, fractions of each true class as colours."""
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    side = max(4.0, min(0.6 * len(labels) + 2, 16))
    figure = new_figure(side, side)
    axis = figure.subplots()
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(labels) <= 20:
        for i, row in enumerate(counts):
            for j, count in enumerate(row):
                axis.text(
                    j, i, f"{count:,}", ha="center", va="center", color="white" if shares[i, j] > 0.6 else "black"
                )
        names = [plain(label, 24) for label in labels]
        axis.set_xticks(range(len(labels)), names, rotation=45, ha="right")
        axis.set_yticks(range(len(labels)), names)
    axis.set(xlabel="predicted", ylabel="true", title=plain(title, 48))
    save(figure, path, dpi=130)
