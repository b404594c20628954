"""How `once` divides a block's matrices into tiles of rows and sequences that see the same keys.

Scores that causality or padding masks at the end of a tile are never computed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..initial import InitialCondition
from ..masks import sees_no_key
from ..reads import read

CAUSAL_ROWS = 256
WORTH_CUTTING = 2**19
ALIGNED = 16
"""Numbers of keys are rounded up to a multiple of this: libraries compile code for each shape that they multiply."""


class Tile(NamedTuple):
    """A range of the flattened (batch, heads), a range of queries, and how many keys they see; those from `end` on are
    padding."""

    heads: slice
    rows: slice
    keys: int
    end: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.heads.stop - self.heads.start, self.rows.stop - self.rows.start, self.keys)


def plan(batch: int, heads: int, queries: int, keys: int, lengths: list[int] | None, causal: bool) -> list[Tile]:
    """Tiles that cover all visible scores; a single tile if more would save little."""
    groups = [(slice(0, batch * heads), keys)]
    if lengths is not None and heads * queries * (keys * batch - sum(lengths)) >= batch * WORTH_CUTTING:
        groups = [(slice(b * heads, (b + 1) * heads), max(1, n)) for b, n in enumerate(lengths)]
    step = CAUSAL_ROWS if causal and queries >= 2 * CAUSAL_ROWS else queries
    tiles = []
    for group, n in groups:
        aligned = min(keys, -(-n // ALIGNED) * ALIGNED)
        for r in range(0, queries, step):
            rows = slice(r, min(r + step, queries))
            tiles.append(Tile(group, rows, min(aligned, r + step) if causal else aligned, n))
    return tiles


class Tiling(NamedTuple):
    """The tiles of a block, and the masks of each flattened (batch, head).

    `key_padding_mask` is None if the tiles already exclude all padded keys; `sees_no_key` is None unless attention is
    causal, where it depends on the query.
    """

    tiles: list[Tile]
    key_padding_mask: Tensor | None
    causal: bool
    sees_no_key: Tensor | None

    @property
    def elements(self) -> int:
        return sum(heads * rows * keys for heads, rows, keys in (tile.shape for tile in self.tiles))

    def blocks(self, p: Tensor) -> Iterator[tuple[Tile, Tensor]]:
        """Each tile and its (heads, rows, keys) part of the flat buffer."""
        start = 0
        for tile in self.tiles:
            heads, rows, keys = tile.shape
            yield tile, p[start : start + heads * rows * keys].view(heads, rows, keys)
            start += heads * rows * keys

    def mask_(self, scores: Tensor, tile: Tile) -> None:
        """Sets masked scores of a tile, or of a piece of one, to the lowest value."""
        lowest = torch.finfo(scores.dtype).min
        if tile.end < tile.keys:
            scores[..., tile.end :] = lowest
        if self.key_padding_mask is not None:
            scores.masked_fill_(self.key_padding_mask[tile.heads, None, : tile.keys], lowest)
        if self.causal:
            rows = torch.arange(tile.rows.start, tile.rows.stop, device=scores.device)
            scores.masked_fill_(torch.arange(tile.keys, device=scores.device) > rows[:, None], lowest)


def tiling(initial: InitialCondition) -> Tiling:
    batch, queries, _ = initial.queries.shape
    keys, heads, mask = initial.keys.shape[1], initial.heads, initial.key_padding_mask
    if mask is None:
        return Tiling(plan(batch, heads, queries, keys, None, initial.causal), None, initial.causal, None)
    lengths = counts = None
    if mask.device.type == "cpu":
        places = torch.arange(1, keys + 1, device=mask.device)
        lengths, counts = read(torch.stack([(~mask * places).amax(1), (~mask).sum(1)]), "lengths")
    tiles = plan(batch, heads, queries, keys, lengths, initial.causal)
    cut = tiles[0].heads.stop == heads and batch > 1
    flat = None if cut and lengths == counts else mask.repeat_interleave(heads, 0)
    without = sees_no_key(mask, causal=True) if initial.causal else None
    without = None if without is None else without.repeat_interleave(heads, 0)
    return Tiling(tiles, flat, initial.causal, without)
