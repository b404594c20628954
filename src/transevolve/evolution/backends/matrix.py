"""P = Softmax(A0) of a block, in pieces that fit in the cache: stored in one buffer, or computed when needed."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .products import Dtypes
from .tiles import Tile, Tiling

CACHED = 2**21
ROOM = 2**26
HALF_TOP = 2.0**15


class Matrix(NamedTuple):
    """What P is computed from, and how; batch and heads are one dimension."""

    q: Float[Tensor, "flat q part"]
    k: Float[Tensor, "flat k part"]
    tiling: Tiling
    precision: Dtypes

    def softmax(self, tile: Tile, out: Tensor | None = None) -> Float[Tensor, "heads rows keys"]:
        """P of a tile in the wide dtype; in `out`, if that has this dtype."""
        out = None if self.precision.is_low else out
        scores = self.precision.multiply(self.q[tile.heads, tile.rows], self.k[tile.heads, : tile.keys].mT, out)
        self.tiling.mask_(scores, tile)
        if not self.precision.is_low:
            return torch.softmax(scores, -1, out=scores if out is None else out)
        p = torch.softmax(scores, -1, dtype=self.precision.wide)
        return p.mul_(HALF_TOP / p.amax(-1, keepdim=True)) if self.q.dtype == torch.float16 else p

    def pieces(self, p: Tensor | None) -> Iterator[tuple[Tile, Float[Tensor, "heads rows keys"]]]:
        """Tiles that fit in the cache and their parts of P, from the flat buffer `p` or computed again."""
        for tile, piece in self.cut(p):
            yield tile, self.softmax(tile).to(self.q.dtype) if piece is None else piece

    def cut(self, p: Tensor | None) -> Iterator[tuple[Tile, Tensor | None]]:
        """Tiles that fit in the cache, and their parts of the flat buffer."""
        start = 0
        for tile in self.tiling.tiles:
            heads, rows, keys = tile.shape
            block = None if p is None else p[start : start + heads * rows * keys].view(heads, rows, keys)
            start += heads * rows * keys
            for part in self._fitting(tile):
                h, r = part.heads.start - tile.heads.start, part.rows.start - tile.rows.start
                yield part, None if block is None else block[h : h + part.shape[0], r : r + part.shape[1]]

    def _fitting(self, tile: Tile) -> Iterator[Tile]:
        """As many heads as fit in the cache, and of their rows if not even the fewest heads do."""
        heads, rows, keys = tile.shape
        on_cpu = self.q.device.type == "cpu"
        by_thread = on_cpu and self.precision.way == "plain" and not self.precision.is_low
        cached, fewest = CACHED if on_cpu else ROOM, torch.get_num_threads() if by_thread else 1
        step = min(heads, max(fewest, cached // (rows * keys)))
        fitting = min(rows, max(1, cached // (step * keys)))
        for h in range(tile.heads.start, tile.heads.stop, step):
            for r in range(tile.rows.start, tile.rows.stop, fitting):
                yield tile._replace(
                    heads=slice(h, min(h + step, tile.heads.stop)), rows=slice(r, min(r + fitting, tile.rows.stop))
                )
