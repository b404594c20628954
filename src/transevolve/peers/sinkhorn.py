"""Sinkhorn attention (Tay et al., 2020): each block attends to itself and to the block that a learned sort moves there.

    R = psi(B) Ws,  psi(B_i) the sum of the keys of block i        score of moving block i to position j
    P = Sinkhorn(R / tau)                                           alternating normalization of rows and columns
    Softmax(Q_j [K_j, sum_i P_ij K_i]^T / sqrt(d/m)) [V_j, sum_i P_ij V_i]

Differs from the paper: no Gumbel noise in training. Padded tokens and blocks are excluded from sums, sorting and
normalization. Differs from the Long Range Arena's code, which sums over both indices of P; its rows sum to one, so its
sorting cancels.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..evolution.initial import at_least_float32
from .base import Capabilities, MixerShape
from .blocks import BlockAttention, block_attention
from .heads import glorot_
from .settings import Count
from .system import System

TEMPERATURE = 0.75


def sinkhorn(
    scores: Float[Tensor, "batch heads blocks blocks"], real: Bool[Tensor, "batch blocks"] | None, iterations: int
) -> Float[Tensor, "batch heads blocks blocks"]:
    """Returns a matrix whose columns sum to one, and its rows approximately; zero for padding blocks."""
    ignored = None if real is None else ~(real[:, None, :, None] & real[:, None, None, :])
    lowest = torch.finfo(scores.dtype).min / 4
    for _ in range(iterations):
        for dim in (-1, -2):
            if ignored is not None:
                scores = scores.masked_fill(ignored, lowest)
            scores = scores.log_softmax(dim)
    found = scores.exp()
    return found if ignored is None else found.masked_fill(ignored, 0.0)


class SinkhornAttention(BlockAttention):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=True, stochastic=False, export=False)

    def __init__(self, shape: MixerShape, block: Count = 64, iterations: Count = 8):
        super().__init__(shape)
        self.block, self.iterations = block, iterations
        places = -(-shape.max_length // block)
        self.places = nn.Parameter(torch.empty(shape.num_heads, shape.part, places))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot_(self.places, *self.places.shape[1:])

    def attend(self, q, k, v, key_padding_mask, causal):
        real = None
        if key_padding_mask is not None:
            k, v = (t.masked_fill(key_padding_mask[:, None, :, None], 0.0) for t in (k, v))
            real = ~key_padding_mask.unflatten(1, (-1, self.block))
        q, k, v = (t.unflatten(2, (-1, self.block)) for t in (q, k, v))
        order = self.order(k, real)
        k, v = (torch.cat([t, (order.mT.to(t.dtype) @ t.flatten(3)).view_as(t)], 3) for t in (k, v))
        visible = None if real is None else _visible(real)
        return block_attention(q, k, v, visible)

    def order(
        self, keys: Float[Tensor, "batch heads blocks block part"], real: Bool[Tensor, "batch blocks block"] | None
    ) -> Float[Tensor, "batch heads blocks blocks"]:
        """Returns P, the soft permutation of the blocks."""
        wide = at_least_float32(keys.dtype)
        places = self.places[..., : keys.shape[2]].to(wide)
        scores = keys.sum(3, dtype=wide) @ places / TEMPERATURE
        return sinkhorn(scores, None if real is None else real.any(-1), self.iterations)


def _visible(real: Bool[Tensor, "batch blocks block"]) -> Bool[Tensor, "batch 1 blocks 1 two_blocks"]:
    """A sorted token is a mixture over the blocks: it is visible if any block has a token at its position."""
    mixture = real.any(1, keepdim=True).expand_as(real)
    return torch.cat([real, mixture], -1)[:, None, :, None]


SINKHORN = System(
    "sinkhorn",
    "Tay et al., Sparse Sinkhorn Attention, ICML 2020",
    "n (l + n/l) d, blocks of l",
    "sdpa",
    SinkhornAttention.capabilities,
    SinkhornAttention,
)
