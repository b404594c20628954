"""Measures the distance of evolved attention from recomputed attention at each depth.

Evolved:    depth l's attention from the Q and K of the block's initial condition, X^1.
Recomputed: the same equation and weights at depth l, with Q and K of X^l.

The distance of two rows of attention is their total variation, half the sum of absolute differences: the share of
attention that goes elsewhere, from 0 to 1. Vectors grow with depth, which by itself sharpens recomputed
attention; "rescaled" therefore compares with X^l rescaled to the norm of X^1, token by token. There are two baselines:
the attention of depth 1, and uniform attention.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.figures import new_figure, plain, save
from .observe import Observer

AGAINST = ("recomputed", "rescaled")
COMPARED = ("evolved", "kept", "uniform")
WORDS = {"evolved": "evolved", "kept": "depth 1's, unchanged", "uniform": "uniform"}
Table = list[list[float]]


@dataclass(frozen=True)
class DepthErrors:
    """Mean distances over texts, each D depths x H heads.

    Args:
        cut: The number of truncated texts.
        depths: (block, depth within the block), both from 1.
        recomputed: Distances of `evolved`, `kept` (depth 1's) and `uniform` from attention of X^l.
        rescaled: The same, from attention of X^l at the length of X^1.
        deviation: Standard deviation over texts of `recomputed`.
    """

    texts: int
    tokens: int
    cut: int
    depths: list[tuple[int, int]]
    recomputed: dict[str, Table]
    rescaled: dict[str, Table]
    deviation: dict[str, Table]

    def as_dict(self) -> dict[str, Any]:
        return {"measure": "mean total variation over queries and texts, depths x heads", **asdict(self)}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Means over heads, one row per depth."""
        columns = [(against, name) for against in AGAINST for name in COMPARED]
        means = [np.mean(getattr(self, against)[name], axis=1) for against, name in columns]
        names = [WORDS[name] + (", rescaled" if against == "rescaled" else "") for against, name in columns]
        rows = [
            [f"{block}.{l}", str(l - 1), *(f"{mean[k]:.3f}" for mean in means)]
            for k, (block, l) in enumerate(self.depths)
        ]
        return ["block.depth", "depths since", *names], rows


@torch.inference_mode()
def measure(observer: Observer, texts: Sequence[str], limit: int) -> DepthErrors:
    """Distances over the texts, each truncated to `limit` tokens."""
    rows, cut = observer.ids(list(texts), limit)
    found = np.stack([_of_one(observer, ids) for ids in rows])
    recomputed, rescaled = (dict(zip(COMPARED, table.tolist(), strict=True)) for table in found.mean(0))
    deviation = dict(zip(COMPARED, found.std(0)[0].tolist(), strict=True))
    depths = [(step.number, step.l) for step in observer.steps(rows[0])[:-1]]
    tokens = sum(ids.shape[1] for ids in rows)
    return DepthErrors(len(rows), tokens, cut, depths, recomputed, rescaled, deviation)  # pyright: ignore[reportArgumentType]


def _of_one(observer: Observer, ids: Tensor) -> np.ndarray:
    """Distances of one text: against x compared x depths x heads."""
    *steps, _ = observer.steps(ids)
    first = {step.number: step.x.norm(dim=-1, keepdim=True) for step in steps if step.l == 1}
    found = []
    for step in steps:
        evolved, kept = step.state.attention(step.l), step.state.attention(1)
        uniform = torch.full_like(kept, 1 / kept.shape[-1])
        shrunk = step.x * (first[step.number] / step.x.norm(dim=-1, keepdim=True).clamp(min=1e-12))
        begin, ignored = step.block.attention.begin, observer.ignored(ids)
        again = [begin(x, key_padding_mask=ignored).attention(step.l) for x in (step.x, shrunk)]
        found.append([[_variation(other, recomputed) for other in (evolved, kept, uniform)] for recomputed in again])
    return np.asarray(found).transpose(1, 2, 0, 3)


def _variation(a: Tensor, b: Tensor) -> np.ndarray:
    """Total variation of each head, mean over queries."""
    return ((a - b).abs().sum(-1) / 2).mean(-1)[0].double().numpy()


def write_picture(path: Path, found: DepthErrors, title: str) -> None:
    figure = new_figure(17, 5.2)
    left, middle, right = figure.subplots(1, 3)
    _curves(left, found, found.recomputed, "from attention of X$^l$")
    _curves(middle, found, found.rescaled, "from attention of X$^l$ at the length of X$^1$")
    left.legend()
    matrix = np.asarray(found.recomputed["evolved"])
    image = right.imshow(matrix, cmap="magma_r", vmin=0, vmax=max(float(matrix.max()), 1e-9), aspect="auto")
    several = found.depths[-1][0] > 1
    right.set_yticks(range(len(found.depths)), [f"{b}.{l}" if several else f"{l}" for b, l in found.depths])
    right.set_xticks(range(matrix.shape[1]), [str(h + 1) for h in range(matrix.shape[1])])
    right.set(xlabel="head", ylabel="depth", title="evolved, from attention of X$^l$, by head")
    figure.colorbar(image, ax=right)
    figure.suptitle(plain(title))
    save(figure, path)


def _curves(axes: Any, found: DepthErrors, tables: dict[str, Table], title: str) -> None:
    """One line per kind of attention, dashed for later blocks, over the depths since the initial condition."""
    blocks = sorted({block for block, _ in found.depths})
    for number, name in enumerate(COMPARED):
        values = np.asarray(tables[name])
        for block in blocks:
            chosen = [k for k, (of, _) in enumerate(found.depths) if of == block]
            since = [found.depths[k][1] - 1 for k in chosen]
            label = WORDS[name] + (f", block {block}" if len(blocks) > 1 else "")
            style = ["-", "--", ":", "-."][(block - 1) % 4]
            axes.plot(since, values[chosen].mean(1), "o" + style, color=f"C{number}", label=label)
            if name == "evolved":
                axes.fill_between(since, values[chosen].min(1), values[chosen].max(1), color="C0", alpha=0.15)
    axes.set(xlabel="depths since the initial condition", ylabel="total variation", ylim=(-0.02, 1.02))
    axes.set_title(f"{title}\n(mean over heads; band: all heads)")
    axes.grid(alpha=0.3)
