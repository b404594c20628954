"""Dropout with a cheap mask on CPUs: 16 random bits per element cost a third of a float."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import dropout

LEVELS = 2**16


class Dropout(nn.Dropout):
    """`nn.Dropout`; on a CPU the probability is rounded to a multiple of 2^-16, and the scale is adjusted to match."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        if input.device.type != "cpu":
            return dropout(input, self.p)
        return input * (dropout_factors if torch.compiler.is_compiling() else _factors)(input.detach(), self.p)

    def add(self, x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """x + Dropout(y) in the dtype of x. y is converted first: operations on two dtypes are slow on CPUs."""
        return x + self(y.to(x.dtype))


def _factors(like: Tensor, p: float) -> Tensor:
    """0 for dropped elements; for the others the scale that keeps the mean."""
    dropped = min(LEVELS - 1, max(1, round(p * LEVELS)))
    count = like.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    kept = torch.ge(bits, dropped - LEVELS // 2, out=like.new_empty(count))
    return kept.mul_(LEVELS / (LEVELS - dropped)).view(like.shape)


@torch.library.custom_op("transevolve::dropout_factors", mutates_args=(), tags=torch.Tag.nondeterministic_seeded)
def dropout_factors(like: Tensor, p: float) -> Tensor:
    """`_factors` for compiled graphs, which cannot contain `random_`."""
    return _factors(like, p)


@dropout_factors.register_fake
def _(like: Tensor, p: float) -> Tensor:
    return like.new_empty(like.shape)
