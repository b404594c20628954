"""LazyFormer (Ying et al., 2021): attention computed once for several layers; each has its own values and output.

    P = Softmax(Q K^T / sqrt(d/m)) in the first of `span` layers, P V^l Wo^l in all of them

This is TransEvolve without drift, and is computed as its `once` backend does: one matrix is kept for all layers of a
span, its gradient formed once, in tiles. Where the matrix would not fit, or a graph is compiled, attention is fused
and computed again: the same function.

Differs from the paper: layers are not wider than a Transformer's.
"""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..evolution.backends import Settings, auto, once
from ..evolution.initial import InitialCondition
from .base import Capabilities, MixerShape, SharingMixer
from .heads import glorot_, softmax_attention, visible_keys
from .settings import Count
from .system import System


class _Fused(NamedTuple):
    """Queries and keys, to attend with again in every layer."""

    q: Float[Tensor, "batch heads n part"]
    k: Float[Tensor, "batch heads n part"]
    visible: Bool[Tensor, "#batch 1 #n n"] | None

    def mix(self, values: Float[Tensor, "batch heads n part"], l: int) -> Float[Tensor, "batch heads n part"]:
        return softmax_attention(self.q, self.k, values, self.visible, scale=1.0)


class LazyAttention(SharingMixer):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False)

    def __init__(self, shape: MixerShape, span: Count = 2):
        super().__init__(shape)
        self.span, d = span, shape.hidden_size
        self.l = shape.layer % span + 1
        self.query_key = nn.Linear(d, 2 * d, bias=False) if self.l == 1 else None
        self.value = nn.Linear(d, d, bias=False)
        self.output = nn.Linear(d, d, bias=False)
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
        heads, mask = self.shape.num_heads, None if key_padding_mask is None else ~key_padding_mask
        initial = InitialCondition(q, k, heads, self.span, self.shape.part**-0.5, None, mask, causal)
        batch, n, _ = x.shape
        chosen, _ = auto.explain(n, n, batch, heads, x.device.type, Settings())
        if chosen == "once":
            return once.OnceEvolution(initial, None, part=self.shape.part)
        visible = visible_keys(n, key_padding_mask, causal, x.device)
        return _Fused(initial.scaled_queries, initial.head_keys, visible)

    def mix_shared(self, x, shared):
        values = self.value(x).unflatten(-1, (self.shape.num_heads, -1)).transpose(1, 2)
        return self.output(shared.mix(values, self.l).transpose(1, 2).flatten(2))


LAZYFORMER = System(
    "lazyformer",
    "Ying et al., LazyFormer: Self Attention with Lazy Update, 2021",
    "n^2 d, exponentials of one layer in `span`",
    "once",
    LazyAttention.capabilities,
    LazyAttention,
)
