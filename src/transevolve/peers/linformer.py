"""Linformer (Wang et al., 2020): keys and values projected along the length, n -> k.

    Softmax(Q (E K)^T / sqrt(d/m)) F V,    E, F: k x longest, learned; n tokens use the first n columns

Because E (X Wk) = (E X) Wk, the length is projected first: keys and values are never computed for all n tokens.

Differs from the paper: E and F are shared by the heads of a layer (one of its variants) and initialized as in the Long
Range Arena (Glorot), whose code shares one matrix between keys and values. Padding is set to zero before the
projection; the Arena's code includes it.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..evolution.initial import merge_heads, split_heads
from .base import Capabilities, MixerShape
from .heads import Attention, glorot_, softmax_attention
from .settings import Count
from .system import System


class SeparateProjections(nn.Linear):
    """Projects Q, K and V from three separate inputs."""

    def forward(self, *rows: Tensor) -> list[Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [linear(x, weight) for x, weight in zip(rows, self.weight.chunk(3), strict=True)]


class Linformer(Attention):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=True, stochastic=False)

    def __init__(self, shape: MixerShape, rank: Count = 128):
        super().__init__(shape)
        self.projections = SeparateProjections(shape.hidden_size, 3 * shape.hidden_size, bias=False)
        self.length_projections = nn.Parameter(torch.empty(2, rank, shape.max_length))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot_(self.length_projections, *self.length_projections.shape[1:])

    def mix(self, x, key_padding_mask, causal):
        n, heads = x.shape[1], self.shape.num_heads
        seen = x if key_padding_mask is None else x.masked_fill(key_padding_mask[..., None], 0.0)
        shorter = (self.length_projections[..., :n].flatten(0, 1).to(x.dtype) @ seen).chunk(2, 1)
        q, k, v = (split_heads(rows, heads) for rows in self.projections(x, *shorter))
        return self.output(merge_heads(self.attend(q, k, v, None, causal)))

    def attend(self, q, k, v, key_padding_mask, causal):
        return softmax_attention(q, k, v)


LINFORMER = System(
    "linformer",
    "Wang et al., Linformer: Self-Attention with Linear Complexity, 2020",
    "n k d, k rows",
    "sdpa",
    Linformer.capabilities,
    Linformer,
)
