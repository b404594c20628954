"""Synthesizer (Tay et al., 2021): attention without products of queries and keys, Softmax(R) V.

    dense:   R_ij = relu(x_i W1)_h . t_hj        a table t of positions, learned for each head
    random:  R_ij = s_hi . t_hj                  two tables of rank k, learned, the same for every input

Both are computed as fused attention with the table in place of the keys.

Differs from the paper: no biases. The random form is factorized, as in the Long Range Arena (k = 32): a full n x n
matrix per head would have most of the model's parameters. The Arena's code does not mask padding, and shares the dense
table between heads.
"""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from ..evolution.initial import merge_heads, split_heads
from ..evolution.linear import Linear
from ..evolution.masks import visible_keys
from .base import Capabilities, Mixer, MixerShape
from .heads import glorot_, softmax_attention
from .settings import Count
from .system import System

CITATION = "Tay et al., Synthesizer: Rethinking Self-Attention, ICML 2021"
CAPABILITIES = Capabilities(causal=True, padding=True, fixed_length=True, stochastic=False)


class Synthesizer(Mixer):
    """Attention to a learned table of positions; a subclass implements the queries."""

    capabilities = CAPABILITIES

    def __init__(self, shape: MixerShape, rank: int):
        super().__init__(shape)
        self.value = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.output = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.positions = nn.Parameter(torch.empty(shape.num_heads, shape.max_length, rank))

    def reset_parameters(self) -> None:
        for linear in (self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
        glorot_(self.positions, *self.positions.shape[1:])

    @abstractmethod
    def queries(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "#batch heads n rank"]:
        """Returns the left factor of the scores."""

    def mix(self, x, key_padding_mask, causal):
        batch, n, _ = x.shape
        v = split_heads(self.value(x), self.shape.num_heads)
        q, k = self.queries(x), self.positions[None, :, :n].to(v.dtype)
        part, width = v.shape[-1], max(v.shape[-1], k.shape[-1])
        q, k, v = (pad(t, (0, width - t.shape[-1])).expand(batch, -1, -1, -1) for t in (q.to(v.dtype), k, v))
        visible = visible_keys(n, key_padding_mask, causal, x.device)
        mixed = softmax_attention(q, k, v, visible, scale=1.0)[..., :part]
        return self.output(merge_heads(mixed))


class DenseSynthesizer(Synthesizer):
    def __init__(self, shape: MixerShape):
        super().__init__(shape, shape.part)
        self.hidden = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.xavier_uniform_(self.hidden.weight)

    def queries(self, x):
        return split_heads(torch.relu(self.hidden(x)), self.shape.num_heads)


class RandomSynthesizer(Synthesizer):
    def __init__(self, shape: MixerShape, rank: Count = 32):
        super().__init__(shape, rank)
        self.rows = nn.Parameter(torch.empty_like(self.positions))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        glorot_(self.rows, *self.rows.shape[1:])

    def queries(self, x):
        return self.rows[None, :, : x.shape[1]]


DENSE = System("synthesizer-dense", CITATION, "n^2 d", "sdpa", CAPABILITIES, DenseSynthesizer)
RANDOM = System("synthesizer-random", CITATION, "n^2 d", "sdpa", CAPABILITIES, RandomSynthesizer)
