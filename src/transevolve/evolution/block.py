"""Blocks: an initial condition, then L depths of evolved attention and feed-forward (paper, equations 9, 11 and 13).

Differs from the paper, as the authors' code does: values and feed-forward inputs are layer-normalized, and a block
ends with a layer norm. Padding masks keys only, never queries.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from .attention import AttentionState, EvolvedAttention, find_backend
from .backends import Backend
from .backends.state import PreparedKeys, Stream
from .checkpointing import Checkpointed
from .dropout import Dropout
from .feedforward import FullFeedForward, RandomFeedForward, RotationKey
from .settings import EvolutionSettings


@dataclass(kw_only=True)
class BlockOptions(EvolutionSettings):
    """Settings shared by all blocks of a stack, and their number of depths. Dropout is off by default."""

    depth: int
    dropout: float = 0.0

    def __post_init__(self):
        self.resolve()

    @classmethod
    def of(cls, settings: EvolutionSettings, depth: int) -> "BlockOptions":
        return cls(depth=depth, **{f.name: getattr(settings, f.name) for f in fields(EvolutionSettings)})

    def backend(self) -> Backend:
        """The configured attention backend."""
        return find_backend(self.attention).configured(
            memory_budget=self.attention_memory_budget,
            features=self.num_features,
            feature_map=self.feature_map,
            feature_seed=self.feature_seed,
            redraw_interval=self.feature_redraw_interval,
        )

    def build_attention(self) -> EvolvedAttention:
        return EvolvedAttention(
            self.hidden_size,
            self.num_attention_heads,
            self.depth,
            backend=self.backend(),
            evolution=self.evolution,
            row_operators=self.row_operators,
            convention=self.convention,
            dropout=self.dropout,
        )

    def build_feedforward(self, stack: int, block: int, l: int) -> nn.Module:
        if self.feedforward == "full":
            return FullFeedForward(self)
        return RandomFeedForward(self, RotationKey(self.rotation_seed, stack, block, l, self.depth))

    def norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.hidden_size, eps=self.resolved_eps)


@dataclass
class Trace:
    """Records X^l before each depth and the attention of each depth; a list that is None is not recorded.

    A subclass may override `depth` and `end` to observe a stack as it runs.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None

    def enter(self, x: Tensor) -> None:
        if self.hidden_states is not None:
            self.hidden_states.append(x)

    def depth(self, block: nn.Module, l: int, x: Tensor, state: AttentionState, cross: AttentionState | None) -> None:
        """Called before depth l of a block is applied to x."""
        self.enter(x)
        if self.attentions is not None:
            self.attentions.append(state.attention(l))
        if self.cross_attentions is not None and cross is not None:
            by_sentence = cross.attention(l)
            beams = by_sentence.unflatten(2, (x.shape[0] // by_sentence.shape[0], -1))
            self.cross_attentions.append(beams.transpose(1, 2).flatten(0, 1))

    def end(self, block: nn.Module, x: Tensor, state: AttentionState) -> None:
        """Called after the last depth of a block, before its norm."""


class EncoderDepth(nn.Module):
    """Depth l without its attention, which belongs to the block. Calling it runs the feed-forward."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__()
        self.l = l
        self.value_norm = options.norm()
        self.feedforward_norm = options.norm()
        self.feedforward = options.build_feedforward(stack, block, l)
        self.dropout = Dropout(options.dropout)

    def forward(self, h: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """h + FF^l(LayerNorm(h))"""
        return self.dropout.add(h, self.feedforward(self.feedforward_norm(h)))


class EncoderBlock(Checkpointed):
    """Self attention, computed from the block's input and evolved over its depths."""

    def __init__(self, options: BlockOptions, stack: int = 0, block: int = 0):
        super().__init__()
        self.attention = options.build_attention()
        self.depths = nn.ModuleList(EncoderDepth(options, stack, block, l + 1) for l in range(options.depth))
        self.norm = options.norm()

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
        stream: Stream | None = None,
    ) -> Float[Tensor, "batch n d"]:
        state = self.attention.begin(x, key_padding_mask=key_padding_mask, causal=causal, stream=stream)
        for depth in cast(Iterable[EncoderDepth], self.depths):
            if trace is not None:
                trace.depth(self, depth.l, x, state, None)
            x = self.run(partial(self._depth, depth, state), x, stream)
        if trace is not None:
            trace.end(self, x, state)
        return self.norm(x)

    def _depth(self, depth: EncoderDepth, state: AttentionState, x: Float[Tensor, "batch n d"]) -> Tensor:
        """H = x + Attention^l(LayerNorm(x)); x' = H + FF^l(LayerNorm(H))."""
        return depth(depth.dropout.add(x, self.attention(state, depth.value_norm(x), depth.l)))


class AffineAfterAttention(nn.LayerNorm):
    """Gain and offset of LayerNorm^l(memory), applied after attention instead of before.

    Rows of attention sum to one, so the result is the same, and all depths share one normalized memory.
    """

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, mixed: Float[Tensor, "batch q d"], sees_no_key: Bool[Tensor, "batch #q"] | None
    ) -> Float[Tensor, "batch q d"]:
        offset = self.bias if sees_no_key is None else self.bias * (~sees_no_key)[..., None].to(self.bias.dtype)
        return mixed * self.weight + offset


class DecoderDepth(EncoderDepth):
    """`EncoderDepth` with a layer norm of the encoder's output."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__(options, stack, block, l)
        self.memory_norm = AffineAfterAttention(options.hidden_size, eps=options.resolved_eps)


class DecoderBlock(Checkpointed):
    """Self and cross attention, computed from the block's input and evolved over its depths separately.

    `x` may have several rows, or beams, per sentence of the memory: all of them are queries to that sentence.
    """

    def __init__(self, options: BlockOptions, stack: int = 1, block: int = 0):
        super().__init__()
        self.self_attention = options.build_attention()
        self.cross_attention = options.build_attention()
        self.depths = nn.ModuleList(DecoderDepth(options, stack, block, l + 1) for l in range(options.depth))
        self.norm = options.norm()

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        memory: Float[Tensor, "sentences k d"] | None,
        values: Float[Tensor, "sentences k d"] | None,
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        memory_key_padding_mask: Bool[Tensor, "sentences k"] | None = None,
        trace: Trace | None = None,
        stream: Stream | None = None,
        prepared: PreparedKeys | None = None,
    ) -> Float[Tensor, "batch n d"]:
        """`values` are the normalized memory. With a stream, `x` are its next tokens. `prepared` keys replace the
        memory and its values."""
        state = self.self_attention.begin(x, key_padding_mask=key_padding_mask, causal=True, stream=stream)
        if prepared is not None:
            cross = self.cross_attention.begin(_by_sentence(x, prepared.sentences), prepared=prepared)
        else:
            assert memory is not None
            queries = _by_sentence(x, memory.shape[0])
            cross = self.cross_attention.begin(queries, memory, key_padding_mask=memory_key_padding_mask)
        for depth in cast(Iterable[DecoderDepth], self.depths):
            if trace is not None:
                trace.depth(self, depth.l, x, state, cross)
            x = self.run(partial(self._depth, depth, state, cross, values), x, stream)
        if trace is not None:
            trace.end(self, x, state)
        return self.norm(x)

    def _depth(
        self,
        depth: DecoderDepth,
        state: AttentionState,
        cross: AttentionState,
        values: Float[Tensor, "sentences k d"] | None,
        x: Float[Tensor, "batch n d"],
    ) -> Tensor:
        """Causal self attention, cross attention to LayerNorm^l(memory), feed-forward; a residual around each."""
        h = depth.dropout.add(x, self.self_attention(state, depth.value_norm(x), depth.l))
        mixed = depth.memory_norm(cross.mix(values, depth.l), cross.sees_no_key)
        return depth(depth.dropout.add(h, self.cross_attention.output[depth.l - 1](mixed).view(h.shape)))


def _by_sentence(x: Float[Tensor, "batch n d"], sentences: int) -> Float[Tensor, "sentences queries d"]:
    """All rows of a sentence, concatenated."""
    rows = x.shape[0]
    if rows == sentences:
        return x
    if rows % sentences:
        raise ValueError(f"{rows} decoder rows do not divide into beams of {sentences} sentences")
    return x.reshape(sentences, -1, x.shape[-1])


def normalize_without_affine(memory: Float[Tensor, "batch k d"], eps: float) -> Float[Tensor, "batch k d"]:
    """Layer norm without gain and offset, which all depths share."""
    return layer_norm(memory, memory.shape[-1:], eps=eps)
