"""LazyFormer (Ying et al., 2021): attention weights computed once for several layers.

    P = Softmax(Q K^T / sqrt(d/m)) in the first of `span` layers, P V^l Wo^l in all of them

This is TransEvolve without drift, computed by its `auto` backend: one matrix is kept for all layers of a span, and its
gradient is computed once, in tiles. If the matrix does not fit in memory, or in a compiled graph, attention is fused.

Differs from the paper: layers are not wider than a Transformer's.
"""

from typing import Any

from ..evolution.backends import AutoBackend
from ..evolution.initial import InitialCondition, merge_heads, split_heads
from ..evolution.linear import Linear
from .base import Capabilities, MixerShape, SharingMixer
from .heads import glorot_
from .settings import Count
from .system import System

BACKEND = AutoBackend()


class LazyAttention(SharingMixer):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False)

    def __init__(self, shape: MixerShape, span: Count = 2):
        super().__init__(shape)
        self.span, d = span, shape.hidden_size
        self.l = shape.layer % span + 1
        self.query_key = Linear(d, 2 * d, bias=False) if self.l == 1 else None
        self.value = Linear(d, d, bias=False)
        self.output = Linear(d, d, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.query_key, self.value, self.output):
            if linear is not None:
                glorot_(linear.weight, self.shape.hidden_size, self.shape.hidden_size)

    def begin(self, x, key_padding_mask, causal, below) -> Any:
        if self.query_key is None:
            return below
        self._check(x, key_padding_mask, causal)
        q, k = self.query_key(x).chunk(2, -1)
        part = self.shape.part
        return BACKEND.begin(
            InitialCondition(
                q,
                k,
                heads=self.shape.num_heads,
                depth=self.span,
                scale=part**-0.5,
                value_part=part,
                key_padding_mask=key_padding_mask,
                causal=causal,
            )
        )

    def mix_shared(self, x, shared):
        values = split_heads(self.value(x), self.shape.num_heads)
        return self.output(merge_heads(shared.mix(values, self.l)))


LAZYFORMER = System(
    "lazyformer",
    "Ying et al., LazyFormer: Self Attention with Lazy Update, 2021",
    "n^2 d, exponentials of one layer in `span`",
    "once",
    LazyAttention.capabilities,
    LazyAttention,
)
