"""Products with a block's matrix, in the fastest way of each dtype and device."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ...core.private import cpu_multiplies_bfloat16, cpu_vendor
from ..initial import at_least_float32
from ..onednn import is_faster, multiply_by_head

WIDE, FEW = 1000, 64
SCORES_BY_HEAD = 2**17
Way = Literal["plain", "by head", "accumulated", "widened"]


class Dtypes(NamedTuple):
    """The dtypes of a computation: of the stored `matrix`, of its `thin` factors, and the `wide` one of softmax.

    `way` is how products with the matrix are computed: in its dtype ("plain"), in its dtype by oneDNN, which takes one
    head at a time ("by head"), in its dtype with a float32 result ("accumulated"), or in float32 on pieces that are
    converted while in the cache ("widened").
    """

    matrix: torch.dtype
    thin: torch.dtype
    wide: torch.dtype
    way: Way

    @property
    def is_low(self) -> bool:
        return self.matrix != self.wide

    def multiply(self, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        """a b, in float32 or, if the way is plain, in the dtype of the matrix; it may be written to `out`."""
        if self.way == "by head":
            return multiply_by_head(a, b)
        if self.way == "accumulated":
            return torch.bmm(a.to(self.matrix), b.to(self.matrix), out_dtype=self.wide)
        kind = self.wide if self.way == "widened" else self.matrix
        return torch.bmm(a.to(kind), b.to(kind)) if out is None else torch.bmm(a.to(kind), b.to(kind), out=out)

    def multiply_wide(self, a: Tensor, b: Tensor) -> Tensor:
        """a b, both in the wide dtype."""
        return multiply_by_head(a, b) if self.way == "by head" else a @ b

    def sum_over_rows(
        self, factor: Float[Tensor, "heads n part"], p: Float[Tensor, "heads n keys"]
    ) -> Float[Tensor, "heads part keys"]:
        """factor^T p, computed like `multiply`."""
        if self.way == "widened":
            factor, p = factor.to(self.wide), p.to(self.wide)
        if self.way == "by head" or not by_few_rows(p):
            return self.multiply(factor.mT, p)
        total = p.new_zeros(len(p), factor.shape[2], p.shape[2])
        for rows, block in zip(factor.split(FEW, 1), p.split(FEW, 1), strict=True):
            total.baddbmm_(rows.mT, block)
        return total


def flat(x: Float[Tensor, "batch heads n part"], precision: Dtypes) -> Float[Tensor, "flat n part"]:
    """x with batch and heads in one dimension, in the dtype of the matrix."""
    return x.to(precision.matrix).flatten(0, 1).contiguous()


def by_few_rows(p: Tensor) -> bool:
    """Whether sums over the rows of p are faster in pieces of `FEW` rows: with MKL on Intel, if p is wide."""
    plain = p.device.type == "cpu" and p.dtype in (torch.float32, torch.float64)
    return plain and p.shape[1] > FEW and p.shape[2] >= WIDE and cpu_vendor() == "GenuineIntel"


def compute_dtype(x: Tensor) -> torch.dtype:
    """The dtype of autocast if it is enabled, else that of x."""
    kind = x.device.type
    if x.dtype != torch.float64 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return x.dtype


def precision_of(x: Tensor, scores: int) -> Dtypes:
    """How to compute with inputs like x and this many scores for each head, under the current autocast."""
    low = compute_dtype(x)
    wide = at_least_float32(low)
    if low == wide:
        return Dtypes(low, low, low, "by head" if scores >= SCORES_BY_HEAD and is_faster(x) else "plain")
    way = _way(x.device.type, low)
    return Dtypes(low, wide if way == "widened" else low, wide, way)


def _way(device: str, low: torch.dtype) -> Way:
    """float16 lacks the range of the factors w v and g / D, so only the matrix itself is stored in it."""
    if low == torch.float16:
        return "widened"
    if device == "cpu":
        return "plain" if cpu_multiplies_bfloat16() else "widened"
    return "accumulated" if device == "cuda" else "plain"
