"""Evolved attention (paper, section 4): computed once from a block's initial condition, then evaluated at any depth.

    H^l = Softmax(A0 + b^l) V^l Wo^l,    b^l = A2 T^l

This is equation 9 without the terms that cancel in the softmax; `backends/literal.py` has all of them.

Differs from the paper: by default there is no Wk~, which occurs only in those terms (`row_operators=True` adds it, with
a gradient of exactly zero).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from .backends import BACKENDS, Backend, Evolution
from .backends.state import PreparedEvolution, PreparedKeys, Stream
from .depth import depth_map
from .dropout import Dropout
from .initial import InitialCondition, Temporal, merge_heads, split_heads
from .linear import Linear
from .masks import sees_no_key
from .reads import read
from .settings import Convention, EvolutionKind, EvolutionSettings


class _ZeroGradient(torch.autograd.Function):
    """Returns `x`; an unused parameter gets a gradient of zero instead of None."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, unused: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (unused,) = ctx.saved_tensors
        return grad, torch.zeros_like(unused)

    @staticmethod
    def jvp(ctx, tangent: Tensor, _: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return tangent.view_as(tangent)


class AttentionState(NamedTuple):
    """A block's attention at every depth, as `EvolvedAttention.begin` returns it.

    Args:
        keys: Positions that `values` must have; None if the values are prepared.
        sees_no_key: True at queries without a key to attend to; None if there are none.
    """

    evolution: Evolution | PreparedEvolution
    heads: int
    depth: int
    keys: int | None
    sees_no_key: Bool[Tensor, "batch #q"] | None

    def mix(self, values: Float[Tensor, "batch k d"] | None, l: int) -> Float[Tensor, "batch q d"]:
        """The values averaged by the attention of depth l, before the output projection."""
        if not 1 <= l <= self.depth:
            raise ValueError(f"depth l must be 1..{self.depth}, got {l}")
        if isinstance(self.evolution, PreparedEvolution):
            if values is not None:
                raise ValueError("prepared keys include the values: pass None")
            return merge_heads(self.evolution.at(l))
        if values is None or values.shape[1] != self.keys:
            got = None if values is None else values.shape[1]
            raise ValueError(f"values must have the {self.keys} positions of the keys, got {got}")
        return merge_heads(self.evolution.mix(split_heads(values, self.heads), l))

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l."""
        return self.evolution.attention(l)


class _Begin(NamedTuple):
    """The arguments of `EvolvedAttention.begin`."""

    x: Tensor
    source: Tensor | None
    key_padding_mask: Tensor | None
    causal: bool
    backend: Backend
    stream: Stream | None
    prepared: PreparedKeys | None


class _Remember(NamedTuple):
    """The arguments of `EvolvedAttention.remember`."""

    memory: Tensor
    values: Tensor
    key_padding_mask: Tensor | None


class EvolvedAttention(nn.Module):
    """One block's attention, in two phases.

        state = attention.begin(x, memory=None, key_padding_mask=None, causal=False)
        y = attention(state, values, l)      # l = 1..depth

    `x` is the block's input, `memory` the sequence attended to if it is another one, `key_padding_mask` is True at
    keys to ignore (as in `torch.nn.MultiheadAttention`). A query that sees no key gets zeros.

    `backend` is a name or a configured `Backend`. If it redraws random features, they are redrawn every
    `redraw_interval` training passes, which breaks a compiled graph in two; an exported graph keeps its features.

    Both phases run inside `forward`, so hooks that load or gather parameters apply to them.
    """

    features: Tensor
    passes: Tensor | None

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        depth: int,
        *,
        backend: str | Backend = EvolutionSettings.attention,
        evolution: EvolutionKind = EvolutionSettings.evolution,
        row_operators: bool = EvolutionSettings.row_operators,
        convention: Convention = EvolutionSettings.convention,
        dropout: float = 0.0,
    ):
        super().__init__()
        if hidden_size % (2 * num_heads):
            raise ValueError(
                f"hidden_size={hidden_size} does not split into {num_heads} heads of even width;"
                f" use a multiple of {2 * num_heads}"
            )
        if depth < 1:
            raise ValueError(f"a block has at least one depth, got depth={depth}")
        self.hidden_size, self.num_heads, self.depth = hidden_size, num_heads, depth
        self.evolution: EvolutionKind = evolution
        self.convention: Convention = convention
        wide = 2 * hidden_size
        self.query = Linear(hidden_size, wide, bias=False)
        self.key = Linear(hidden_size, wide, bias=False)
        self.output = nn.ModuleList(Linear(hidden_size, hidden_size, bias=False) for _ in range(depth))
        if evolution == "keys":
            self.depth_weight = nn.Parameter(torch.empty(depth, hidden_size))
            self.temporal_query = nn.Parameter(torch.empty(hidden_size, wide))
        else:
            self.register_parameter("depth_weight", None)
            self.register_parameter("temporal_query", None)
        self.temporal_key = nn.Parameter(torch.empty(hidden_size, wide)) if row_operators else None
        self.dropout = Dropout(dropout)
        self.backend = backend
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
            nn.init.xavier_uniform_(cast(nn.Linear, linear).weight)
        self._draw_features(0)

    @torch.no_grad()
    def _draw_features(self, number: int) -> None:
        self._drawn = number
        drawn = self.backend.draw(self.features.shape[1], number)
        if drawn is not None and not self.features.is_meta:
            self.features.copy_(drawn)

    def _update_features(self) -> None:
        """Redraws the features if their interval has passed."""
        if self.passes is None or self.passes.is_meta or torch.compiler.is_exporting():
            return
        if self.training or not torch.compiler.is_compiling():
            # Not a decorator, which would import the compiler together with this module.
            redraw = self._redraw_if_due
            if torch.compiler.is_compiling():
                redraw = cast(Callable[[Tensor], None], torch.compiler.disable(redraw))
            redraw(self.passes)

    def _redraw_if_due(self, passes: Tensor) -> None:
        number = read(passes, "passes") // self.backend.redraw_interval
        if number != self._drawn:
            self._draw_features(number)

    def train(self, mode: bool = True) -> "EvolvedAttention":
        """Also updates the features, so that a model exported after loading has the right ones."""
        self._update_features()
        return super().train(mode)

    @property
    def backend(self) -> Backend:
        return self._backend

    @backend.setter
    def backend(self, backend: str | Backend) -> None:
        self._backend = find_backend(backend)
        width, device = 2 * self.hidden_size // self.num_heads, self.query.weight.device
        drawn = self._backend.draw(width)
        if drawn is None:
            # Empty rather than None: Hugging Face initializes only modules that own a tensor. Not on the meta device:
            # leaving it imports a symbolic shape engine.
            features = torch.empty(0, width, device="cpu" if device.type == "meta" else device)
        else:
            features = drawn.to(device)
        passes = torch.zeros((), dtype=torch.long, device=device) if self._backend.redraw_interval else None
        self.register_buffer("features", features, persistent=False)
        self.register_buffer("passes", passes)
        self._drawn = 0

    @property
    def scale(self) -> float:
        """1/sqrt(d/m) in the paper; the authors' code uses the full width of a head, (d+d')/m."""
        width = self.hidden_size if self.convention == "paper" else 2 * self.hidden_size
        return (width / self.num_heads) ** -0.5

    def begin(
        self,
        x: Float[Tensor, "batch q d"],
        memory: Float[Tensor, "batch k d"] | None = None,
        key_padding_mask: Bool[Tensor, "batch k"] | None = None,
        causal: bool = False,
        *,
        backend: str | Backend | None = None,
        stream: Stream | None = None,
        prepared: PreparedKeys | None = None,
    ) -> AttentionState:
        """Computes the initial condition, from which attention follows at every depth.

        With a `stream`, `x` and later `values` are those of the next tokens of a causal sequence. `prepared` keys
        replace the memory and its values: pass None as values at each depth.
        """
        self._check(x, memory, key_padding_mask, causal)
        chosen = self.backend
        if backend is not None and backend != chosen.name:
            chosen = find_backend(backend)
        return self(_Begin(x, memory, key_padding_mask, causal, chosen, stream, prepared))

    def stream(self, limit: int | None = None) -> Stream:
        """An empty past to pass to each `begin` of a causal sequence; `limit` is its largest length, if known."""
        return self.backend.stream(limit)

    def remember(
        self,
        memory: Float[Tensor, "batch k d"],
        values: Float[Tensor, "batch heads k part"],
        key_padding_mask: Bool[Tensor, "batch k"] | None = None,
    ) -> PreparedKeys:
        """Prepares a memory for repeated calls of `begin`; all depths share the values."""
        self._check(memory, None, key_padding_mask, False)
        return self(_Remember(memory, values, key_padding_mask))

    def forward(
        self,
        state: AttentionState | _Begin | _Remember,
        values: Float[Tensor, "batch k d"] | None = None,
        l: int = 1,
    ) -> Any:
        """Attention evolved to depth l, applied to the values: batch x q x d."""
        if isinstance(state, _Begin):
            return self._begin(state)
        if isinstance(state, _Remember):
            keys = self._with_unused(self.key(state.memory))
            initial = self._initial(keys[:, :0], keys, state.key_padding_mask, False, self.backend)
            return self.backend.remember(initial, state.values)
        mixed = state.mix(values, l)
        return self.output[l - 1](mixed)

    def _begin(self, request: _Begin) -> AttentionState:
        backend, x = request.backend, request.x
        if torch.compiler.is_compiling() and not backend.compiles:
            backend.refuse("be compiled or exported")
        mask, causal, shape = request.key_padding_mask, request.causal, (self.num_heads, self.depth)
        if request.prepared is not None:
            queries = self.query(x)
            initial = self._initial(queries, queries[:, :0], None, False, backend)
            return AttentionState(request.prepared.attend(initial), *shape, None, request.prepared.sees_no_key)
        source = x if request.source is None else request.source
        keys = self._with_unused(self.dropout(self.key(source)))
        initial = self._initial(self.dropout(self.query(x)), keys, mask, causal, backend)
        if self.passes is not None and self.training and backend is self.backend and not torch.compiler.is_exporting():
            self.passes += 1
        if request.stream is not None:
            evolution, without = request.stream.extend(initial), request.stream.sees_no_key(x.shape[1])
            return AttentionState(evolution, *shape, x.shape[1], without)
        return AttentionState(backend.begin(initial), *shape, source.shape[1], sees_no_key(mask, causal))

    def _with_unused(self, keys: Tensor) -> Tensor:
        """The keys; Wk~, which has no effect on them, gets a gradient of zero."""
        if self.temporal_key is None or not torch.is_grad_enabled():
            return keys
        return _ZeroGradient.apply(keys, self.temporal_key)

    def _initial(
        self, queries: Tensor, keys: Tensor, key_padding_mask: Tensor | None, causal: bool, backend: Backend
    ) -> InitialCondition:
        if backend is self.backend:
            self._update_features()
            features = self.features
        else:
            features = backend.draw(queries.shape[-1] // self.num_heads)
            features = None if features is None else features.to(queries.device)
        return InitialCondition(
            queries=queries,
            keys=keys,
            heads=self.num_heads,
            depth=self.depth,
            scale=self.scale,
            value_part=self.hidden_size // self.num_heads,
            temporal=self.temporal(),
            key_padding_mask=key_padding_mask,
            causal=causal,
            features=features,
        )

    def temporal(self) -> Temporal | None:
        """The operators of depth; None if attention does not evolve."""
        if self.depth_weight is None or self.temporal_query is None:
            return None
        by_head = (self.num_heads, -1)
        key = self.temporal_key
        return Temporal(
            depth=depth_map(self.depth_weight, self.convention).unflatten(-1, by_head),
            query=self.temporal_query.unflatten(0, by_head),
            key=None if key is None else key.detach().unflatten(0, by_head),
        )

    def _check(self, x: Tensor, memory: Tensor | None, key_padding_mask: Tensor | None, causal: bool) -> None:
        source = x if memory is None else memory
        for name, tensor in (("x", x), ("memory", source)):
            if tensor.ndim != 3 or tensor.shape[-1] != self.hidden_size:
                raise ValueError(f"{name} must be (batch, length, {self.hidden_size}), got {tuple(tensor.shape)}")
        if x.shape[0] != source.shape[0]:
            raise ValueError(f"x has batch {x.shape[0]} but memory has batch {source.shape[0]}")
        if causal and memory is not None:
            raise ValueError("causal attention is for one sequence: it cannot be combined with a memory")
        if key_padding_mask is not None:
            if key_padding_mask.dtype != torch.bool:
                raise TypeError(f"key_padding_mask must be bool (True = ignore), got {key_padding_mask.dtype}")
            if key_padding_mask.shape != source.shape[:2]:
                raise ValueError(
                    f"key_padding_mask must be (batch, keys) = {tuple(source.shape[:2])},"
                    f" got {tuple(key_padding_mask.shape)}"
                )

    def extra_repr(self) -> str:
        return f"heads={self.num_heads}, depth={self.depth}, backend={self.backend.name}, evolution={self.evolution}"


def find_backend(backend: str | Backend) -> Backend:
    """A backend by name, with default settings; a `Backend` is returned unchanged."""
    if isinstance(backend, Backend):
        return backend
    if backend not in BACKENDS:
        raise ValueError(f"unknown attention backend {backend!r}; there are {', '.join(sorted(BACKENDS))}")
    return BACKENDS[backend]
