"""Evolved attention (paper, section 4): computed once from a block's initial condition, then evaluated at any depth.

    H^l = Softmax(A0 + A1 T^l + (A2 T^l)^T + A3 (T^l * T^l)) V^l Wo^l

Differs from the paper: by default Wk~ is not carried, since the terms it enters cancel in the softmax
(`row_operators=True` carries it, with a gradient of exactly zero).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .backends import BACKENDS, Evolution, Settings
from .backends.linear import orthogonal_features
from .backends.memory import Memory, Recall, remember
from .backends.stream import Stream, open_stream
from .depth import depth_map
from .dropout import Dropout
from .initial import InitialCondition, Temporal, merge_heads, split_heads
from .settings import Convention, EvolutionKind, EvolutionSettings


class _Carry(torch.autograd.Function):
    """Passes `x` on, and gives a parameter that cannot matter a gradient of zero instead of none."""

    @staticmethod
    def forward(ctx, x: Tensor, dead: Tensor) -> Tensor:
        ctx.save_for_backward(dead)
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (dead,) = ctx.saved_tensors
        return grad, torch.zeros_like(dead)


class AttentionState(NamedTuple):
    """What `EvolvedAttention.begin` hands to every depth."""

    evolution: Evolution | Recall
    keys: int
    sighted: Bool[Tensor, "batch #q"] | None

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l."""
        return self.evolution.attention(l)


class EvolvedAttention(nn.Module):
    """One block's attention, in two phases.

        state = attention.begin(x, memory=None, key_padding_mask=None, causal=False)
        y = attention(state, values, l)      # l = 1..depth

    `x` is the block's input, `memory` the sequence attended to if it is another one, `key_padding_mask` is True at
    keys to ignore (as in `torch.nn.MultiheadAttention`). A query that sees no key gets zeros.
    """

    projection: Tensor
    passes: Tensor

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        depth: int,
        *,
        backend: str = EvolutionSettings.attention,
        evolution: EvolutionKind = EvolutionSettings.evolution,
        row_operators: bool = EvolutionSettings.row_operators,
        convention: Convention = EvolutionSettings.convention,
        dropout: float = 0.0,
        settings: Settings | None = None,
    ):
        super().__init__()
        if hidden_size % (2 * num_heads):
            raise ValueError(
                f"hidden_size={hidden_size} does not split into {num_heads} heads of even width;"
                f" a multiple of {2 * num_heads} would"
            )
        if depth < 1:
            raise ValueError(f"a block has at least one depth, got depth={depth}")
        if backend not in BACKENDS:
            raise ValueError(f"unknown attention backend {backend!r}; there are {', '.join(sorted(BACKENDS))}")
        self.hidden_size, self.num_heads, self.depth = hidden_size, num_heads, depth
        self.backend, self.evolution, self.convention = backend, evolution, convention
        self.settings = settings or Settings()
        wide = 2 * hidden_size
        self.query = nn.Linear(hidden_size, wide, bias=False)
        self.key = nn.Linear(hidden_size, wide, bias=False)
        self.output = nn.ModuleList(nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(depth))
        if evolution == "keys":
            self.depth_weight = nn.Parameter(torch.empty(depth, hidden_size))
            self.temporal_query = nn.Parameter(torch.empty(hidden_size, wide))
        else:
            self.register_parameter("depth_weight", None)
            self.register_parameter("temporal_query", None)
        self.temporal_key = nn.Parameter(torch.empty(hidden_size, wide)) if row_operators else None
        self.dropout = Dropout(dropout)
        self.register_buffer("projection", torch.empty(self.settings.features, wide // num_heads), persistent=False)
        if self.settings.redraw_interval:
            self.register_buffer("passes", torch.zeros((), dtype=torch.long))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        wide = 2 * self.hidden_size
        limit = math.sqrt(6 / (wide + wide))
        for weight in (self.query.weight, self.key.weight, self.temporal_query, self.temporal_key):
            if weight is not None:
                nn.init.uniform_(weight, -limit, limit)
        if self.depth_weight is not None:
            limit = math.sqrt(6 / self.hidden_size)
            nn.init.uniform_(self.depth_weight, -limit, limit)
        for linear in self.output:
            nn.init.xavier_uniform_(linear.weight)
        self.reset_features()

    @torch.no_grad()
    def reset_features(self, draw: int = 0) -> None:
        """The random features of the `linear` backend; a later draw replaces them."""
        self._draw = draw
        if not self.projection.is_meta:
            features, width = self.projection.shape
            self.projection.copy_(orthogonal_features(features, width, self.settings.feature_seed + draw))

    def _redraw(self) -> None:
        """New features every `redraw_interval` training passes, counted in the checkpoint."""
        if not self.settings.redraw_interval or torch.compiler.is_compiling():
            return
        draw = int(self.passes) // self.settings.redraw_interval
        if draw != self._draw:
            self.reset_features(draw)
        if self.training:
            self.passes += 1

    @property
    def scale(self) -> float:
        """1/sqrt(d/m) in the paper; the authors' code divides by the root of the head's full width (d+d')/m."""
        width = self.hidden_size if self.convention == "paper" else 2 * self.hidden_size
        return (width / self.num_heads) ** -0.5

    def _temporal(self) -> Temporal | None:
        if self.depth_weight is None or self.temporal_query is None:
            return None
        by_head = (self.num_heads, -1)
        key = self.temporal_key
        return Temporal(
            depth=depth_map(self.depth_weight, self.convention).unflatten(-1, by_head),
            query=self.temporal_query.unflatten(0, by_head),
            key=None if key is None else key.detach().unflatten(0, by_head),
        )

    def begin(
        self,
        x: Float[Tensor, "batch q d"],
        memory: Float[Tensor, "batch k d"] | None = None,
        key_padding_mask: Bool[Tensor, "batch k"] | None = None,
        causal: bool = False,
        *,
        backend: str | None = None,
        stream: Stream | None = None,
    ) -> AttentionState:
        """The initial condition: all that attention needs at every depth.

        With a `stream`, `x` are the next tokens of a causal sequence, and `values` those of these tokens.
        """
        source = x if memory is None else memory
        self._check(x, source, memory is not None, key_padding_mask, causal)
        backend = backend or self.backend
        if backend == "linear":
            self._redraw()
        keys = self._carry(self.dropout(self.key(source)))
        initial = self._initial(self.dropout(self.query(x)), keys, key_padding_mask, causal)
        if stream is not None:
            return AttentionState(stream.extend(initial), x.shape[1], stream.sighted(x.shape[1]))
        return AttentionState(BACKENDS[backend](initial, self.settings), source.shape[1], initial.sighted())

    def _carry(self, keys: Tensor) -> Tensor:
        if self.temporal_key is None or not torch.is_grad_enabled():
            return keys
        return _Carry.apply(keys, self.temporal_key)

    def _initial(
        self, queries: Tensor, keys: Tensor, key_padding_mask: Tensor | None = None, causal: bool = False
    ) -> InitialCondition:
        return InitialCondition(
            queries=queries,
            keys=keys,
            heads=self.num_heads,
            depth=self.depth,
            scale=self.scale,
            temporal=self._temporal(),
            key_mask=None if key_padding_mask is None else ~key_padding_mask,
            causal=causal,
            projection=self.projection,
        )

    def stream(self, limit: int | None = None) -> Stream:
        """An empty past, to be given to every `begin` of one causal sequence, of at most `limit` tokens if known."""
        return open_stream(self.backend, self.settings, limit)

    def remember(
        self,
        memory: Float[Tensor, "batch k d"],
        values: Float[Tensor, "batch heads k part"],
        key_padding_mask: Bool[Tensor, "batch k"] | None = None,
    ) -> Memory:
        """A memory prepared for many `recall`s, with the values, split in heads, that serve every depth."""
        self._check(memory, memory, True, key_padding_mask, False)
        keys = self._carry(self.key(memory))
        initial = self._initial(keys[:, :0], keys, key_padding_mask)
        return remember(self.backend, initial, self.settings, values)

    def recall(self, x: Float[Tensor, "batch q d"], memory: Memory) -> AttentionState:
        """`begin` with a remembered memory: each depth is then asked for without values."""
        queries = self.query(x)
        return AttentionState(memory.recall(self._initial(queries, queries[:, :0])), memory.keys, memory.sighted)

    def _check(self, x: Tensor, source: Tensor, cross: bool, key_padding_mask: Tensor | None, causal: bool) -> None:
        for name, tensor in (("x", x), ("memory", source)):
            if tensor.ndim != 3 or tensor.shape[-1] != self.hidden_size:
                raise ValueError(f"{name} must be (batch, length, {self.hidden_size}), got {tuple(tensor.shape)}")
        if x.shape[0] != source.shape[0]:
            raise ValueError(f"x has batch {x.shape[0]} but memory has batch {source.shape[0]}")
        if causal and cross:
            raise ValueError("causal attention orders the tokens of one sequence: it has no meaning with a memory")
        if key_padding_mask is not None:
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(f"key_padding_mask must be bool (True = ignore), got {key_padding_mask.dtype}")
            if key_padding_mask.shape != source.shape[:2]:
                raise ValueError(
                    f"key_padding_mask must be (batch, keys) = {tuple(source.shape[:2])},"
                    f" got {tuple(key_padding_mask.shape)}"
                )

    def forward(
        self,
        state: AttentionState,
        values: Float[Tensor, "batch k d"] | None,
        l: int,
        *,
        gain: Float[Tensor, " d"] | None = None,
        offset: Float[Tensor, " d"] | None = None,
    ) -> Float[Tensor, "batch q d"]:
        """Attention evolved to depth l, applied to `values * gain + offset`; a remembered memory has its own values.

        Rows of attention sum to one, so gain and offset are applied after the product: one normalised memory
        then serves every depth.
        """
        if not 1 <= l <= self.depth:
            raise ValueError(f"depth l must be 1..{self.depth}, got {l}")
        if isinstance(state.evolution, Recall):
            if values is not None:
                raise ValueError("a remembered memory has values of its own: give None")
            mixed = merge_heads(state.evolution.at(l))
        else:
            if values is None or values.shape[1] != state.keys:
                given = "none" if values is None else values.shape[1]
                raise ValueError(f"values must have the {state.keys} positions of the keys, got {given}")
            mixed = merge_heads(state.evolution.mix(split_heads(values, self.num_heads), l))
        if gain is not None:
            mixed = mixed * gain
        if offset is not None:
            mixed = mixed + (offset if state.sighted is None else offset * state.sighted[..., None].to(offset.dtype))
        return self.output[l - 1](mixed)

    def extra_repr(self) -> str:
        return f"heads={self.num_heads}, depth={self.depth}, backend={self.backend}, evolution={self.evolution}"
