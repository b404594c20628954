"""Blocks: an initial condition, then L depths of evolved attention and feed-forward (paper, equations 9, 11 and 13).

Differs from the paper, as the authors' code does: values and feed-forward inputs are layer-normalised, and a block
ends with a layer norm. Padding masks keys only, never queries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import cast

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from .attention import AttentionState, EvolutionKind, EvolvedAttention
from .backends import Backend
from .backends.state import PreparedKeys, Stream
from .checkpointing import Checkpointed
from .depth import Convention
from .dropout import Dropout
from .feedforward import FullFeedForward, RandomFeedForward, RotationInit, RotationKey


@dataclass(frozen=True)
class BlockOptions:
    """The settings that all blocks of a stack share."""

    hidden_size: int
    num_heads: int
    intermediate_size: int
    depth: int
    feedforward: str = "full"
    backend: str | Backend = "auto"
    evolution: EvolutionKind = "keys"
    row_operators: bool = False
    rotation_seed: int | None = 0
    rotation_init: RotationInit = "unit"
    convention: Convention = "paper"
    dropout: float = 0.0
    layer_norm_eps: float = 1e-5

    def attention(self) -> EvolvedAttention:
        return EvolvedAttention(
            self.hidden_size,
            self.num_heads,
            self.depth,
            backend=self.backend,
            evolution=self.evolution,
            row_operators=self.row_operators,
            convention=self.convention,
            dropout=self.dropout,
        )

    def feed_forward(self, stack: int, block: int, l: int) -> nn.Module:
        if self.feedforward == "full":
            return FullFeedForward(self.hidden_size, self.intermediate_size)
        key = RotationKey(self.rotation_seed, stack, block, l, self.depth)
        return RandomFeedForward(self.hidden_size, self.intermediate_size, key, self.convention, self.rotation_init)

    def norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.hidden_size, eps=self.layer_norm_eps)


@dataclass
class Trace:
    """Collects what a caller asked for: X^l entering each depth, and the attention of each depth.

    A subclass may override `depth` and `end` to watch a stack as it runs.
    """

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None

    def enter(self, x: Tensor) -> None:
        if self.hidden_states is not None:
            self.hidden_states.append(x)

    def depth(self, block: nn.Module, l: int, x: Tensor, state: AttentionState, cross: AttentionState | None) -> None:
        """Depth l of a block is about to act on x."""
        self.enter(x)
        if self.attentions is not None:
            self.attentions.append(state.attention(l))
        if self.cross_attentions is not None and cross is not None:
            by_sentence = cross.attention(l)
            beams = by_sentence.unflatten(2, (x.shape[0] // by_sentence.shape[0], -1))
            self.cross_attentions.append(beams.transpose(1, 2).flatten(0, 1))

    def end(self, block: nn.Module, x: Tensor, state: AttentionState) -> None:
        """The last depth of a block has acted; its norm follows."""


class EncoderDepth(nn.Module):
    """The parts of depth l, except its attention, which belongs to the block. Calling it runs the feed-forward."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__()
        self.l = l
        self.value_norm = options.norm()
        self.feedforward_norm = options.norm()
        self.feedforward = options.feed_forward(stack, block, l)
        self.dropout = Dropout(options.dropout)

    def forward(self, h: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        """h + FF^l(LayerNorm(h))"""
        return h + self.dropout(self.feedforward(self.feedforward_norm(h)))


class EncoderBlock(Checkpointed):
    """Self attention from this block's input, evolved over its depths."""

    def __init__(self, options: BlockOptions, stack: int = 0, block: int = 0):
        super().__init__()
        self.attention = options.attention()
        self.depths = nn.ModuleList(EncoderDepth(options, stack, block, l + 1) for l in range(options.depth))
        self.norm = options.norm()

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Float[Tensor, "batch n d"]:
        state = self.attention.begin(x, key_padding_mask=key_padding_mask, causal=causal)
        for depth in cast(Iterable[EncoderDepth], self.depths):
            if trace is not None:
                trace.depth(self, depth.l, x, state, None)
            x = self.run(partial(self._depth, depth, state), x)
        if trace is not None:
            trace.end(self, x, state)
        return self.norm(x)

    def _depth(self, depth: EncoderDepth, state: AttentionState, x: Float[Tensor, "batch n d"]) -> Tensor:
        """H = x + Attention^l(LayerNorm(x)); x' = H + FF^l(LayerNorm(H))."""
        return depth(x + depth.dropout(self.attention(state, depth.value_norm(x), depth.l)))


class AffineAfterAttention(nn.LayerNorm):
    """Gain and offset of LayerNorm^l(memory), applied to the averaged values.

    Rows of attention sum to one, so the result is the same, and one normalized memory serves every depth.
    """

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, mixed: Float[Tensor, "batch q d"], sees_no_key: Bool[Tensor, "batch #q"] | None
    ) -> Float[Tensor, "batch q d"]:
        offset = self.bias if sees_no_key is None else self.bias * (~sees_no_key)[..., None].to(self.bias.dtype)
        return mixed * self.weight + offset


class DecoderDepth(EncoderDepth):
    """As in the encoder, with the layer norm of the encoder output."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__(options, stack, block, l)
        self.memory_norm = AffineAfterAttention(options.hidden_size, eps=options.layer_norm_eps)


class DecoderBlock(Checkpointed):
    """Self and cross attention from this block's input, each evolved over its depths with operators of its own.

    There may be several rows, its beams, per sentence of the memory: all of them are queries of that one sentence.
    """

    def __init__(self, options: BlockOptions, stack: int = 1, block: int = 0):
        super().__init__()
        self.self_attention = options.attention()
        self.cross_attention = options.attention()
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
        """`values` are the normalized memory. With a stream, `x` are the tokens that follow; `prepared` keys stand for
        the memory and its values."""
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
            step = partial(self._depth, depth, state, cross, values)
            # Recomputing a step would append its tokens to the stream again.
            x = self.run(step, x) if stream is None else step(x)
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
        h = x + depth.dropout(self.self_attention(state, depth.value_norm(x), depth.l))
        mixed = depth.memory_norm(cross.mix(values, depth.l), cross.sees_no_key)
        return depth(h + depth.dropout(self.cross_attention.output[depth.l - 1](mixed).view(h.shape)))


def _by_sentence(x: Float[Tensor, "batch n d"], sentences: int) -> Float[Tensor, "sentences queries d"]:
    """The tokens of all rows of a sentence, one row after the other."""
    rows = x.shape[0]
    if rows == sentences:
        return x
    if rows % sentences:
        raise ValueError(f"{rows} decoder rows do not divide into beams of {sentences} sentences")
    return x.reshape(sentences, -1, x.shape[-1])


def normalize_without_affine(memory: Float[Tensor, "batch k d"], eps: float) -> Float[Tensor, "batch k d"]:
    """Layer norm without gain and offset: the form of the memory that all depths share."""
    return layer_norm(memory, memory.shape[-1:], eps=eps)
