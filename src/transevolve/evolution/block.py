"""Blocks: an initial condition, then L depths of evolved attention and feed-forward (paper, equations 9, 11 and 13).

Differs from the paper, as the authors' code does: values and feed-forward inputs are layer-normalised, and a block
ends with a layer norm. A query never masks itself: padding hides keys only.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from torch.utils.checkpoint import checkpoint

from .attention import AttentionState, EvolvedAttention
from .backends import Settings
from .backends.memory import Memory
from .backends.stream import Stream
from .dropout import Dropout
from .feedforward import FullFeedForward, RandomFeedForward, RotationKey
from .settings import EvolutionSettings


@dataclass(kw_only=True)
class BlockOptions(EvolutionSettings):
    """What all blocks of a stack share: the settings of layers, and the number of depths. No dropout unless asked."""

    depth: int
    dropout: float = 0.0

    def __post_init__(self):
        self.resolve()

    @classmethod
    def of(cls, settings: EvolutionSettings, depth: int) -> "BlockOptions":
        return cls(depth=depth, **{f.name: getattr(settings, f.name) for f in fields(EvolutionSettings)})

    @property
    def backend_settings(self) -> Settings:
        return Settings(
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
            backend=self.attention,
            evolution=self.evolution,
            row_operators=self.row_operators,
            convention=self.convention,
            dropout=self.dropout,
            settings=self.backend_settings,
        )

    def build_feedforward(self, stack: int, block: int, l: int) -> nn.Module:
        if self.feedforward == "full":
            return FullFeedForward(self)
        return RandomFeedForward(self, RotationKey(self.rotation_seed, stack, block, l, self.depth))

    def norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.hidden_size, eps=self.norm_eps)


@dataclass
class Trace:
    """Collects what a caller asked to see: X^l entering each depth, and the attention of each depth."""

    hidden_states: list[Tensor] | None = None
    attentions: list[Tensor] | None = None
    cross_attentions: list[Tensor] | None = None

    def enter(self, x: Tensor) -> None:
        if self.hidden_states is not None:
            self.hidden_states.append(x)

    def attend(self, state: AttentionState, cross: AttentionState | None, l: int, rows: int) -> None:
        if self.attentions is not None:
            self.attentions.append(state.attention(l))
        if self.cross_attentions is not None and cross is not None:
            by_sentence = cross.attention(l)
            beams = by_sentence.unflatten(2, (rows // by_sentence.shape[0], -1))
            self.cross_attentions.append(beams.transpose(1, 2).flatten(0, 1))


@dataclass
class BlockPast:
    """What a decoder block keeps between tokens: its self attention's past, and the memory once it is known."""

    stream: Stream
    memory: Memory | None = None


class _Block(nn.Module):
    """Runs its depths, each recomputed in backward if `gradient_checkpointing` is set."""

    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable[..., Tensor] = partial(checkpoint, use_reentrant=False)

    def run(self, step: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self.gradient_checkpointing and self.training:
            return self._gradient_checkpointing_func(step, x)
        return step(x)


class EncoderDepth(nn.Module):
    """H = x + Attention^l(LayerNorm(x)); x' = H + FF^l(LayerNorm(H))."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__()
        self.l = l
        self.value_norm = options.norm()
        self.feedforward_norm = options.norm()
        self.feedforward = options.build_feedforward(stack, block, l)
        self.dropout = Dropout(options.dropout)

    def forward(
        self, attention: EvolvedAttention, state: AttentionState, x: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        h = x + self.dropout(attention(state, self.value_norm(x), self.l))
        return h + self.dropout(self.feedforward(self.feedforward_norm(h)))


class EncoderBlock(_Block):
    """Self attention from this block's input, evolved over its depths."""

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
    ) -> Float[Tensor, "batch n d"]:
        state = self.attention.begin(x, key_padding_mask=key_padding_mask, causal=causal)
        for depth in self.depths:
            if trace is not None:
                trace.enter(x)
                trace.attend(state, None, depth.l, x.shape[0])
            x = self.run(partial(depth, self.attention, state), x)
        return self.norm(x)


class DecoderDepth(nn.Module):
    """Causal self attention, cross attention to LayerNorm^l(memory), feed-forward; a residual around each."""

    def __init__(self, options: BlockOptions, stack: int, block: int, l: int):
        super().__init__()
        self.l = l
        self.value_norm = options.norm()
        self.memory_norm = options.norm()
        self.feedforward_norm = options.norm()
        self.feedforward = options.build_feedforward(stack, block, l)
        self.dropout = Dropout(options.dropout)

    def forward(
        self,
        attention: EvolvedAttention,
        state: AttentionState,
        cross_attention: EvolvedAttention,
        cross_state: AttentionState,
        memory: Float[Tensor, "sentences k d"] | None,
        x: Float[Tensor, "batch n d"],
    ) -> Float[Tensor, "batch n d"]:
        h = x + self.dropout(attention(state, self.value_norm(x), self.l))
        norm = self.memory_norm
        recalled = cross_attention(cross_state, memory, self.l, gain=norm.weight, offset=norm.bias)
        h = h + self.dropout(recalled.view(h.shape))
        return h + self.dropout(self.feedforward(self.feedforward_norm(h)))


class DecoderBlock(_Block):
    """Self and cross attention from this block's input, each evolved over its depths with operators of its own.

    There may be several rows, its beams, to each sentence of the memory: they are then so many queries of one sentence.
    """

    def __init__(self, options: BlockOptions, stack: int = 1, block: int = 0):
        super().__init__()
        self.self_attention = options.build_attention()
        self.cross_attention = options.build_attention()
        self.depths = nn.ModuleList(DecoderDepth(options, stack, block, l + 1) for l in range(options.depth))
        self.norm = options.norm()

    def past(self, limit: int | None = None) -> BlockPast:
        """An empty past; `limit` is a length that will suffice, if one is known."""
        return BlockPast(self.self_attention.stream(limit))

    def remember(
        self,
        past: BlockPast,
        memory: Float[Tensor, "sentences k d"],
        values: Float[Tensor, "sentences heads k part"],
        padding: Bool[Tensor, "sentences k"] | None,
    ) -> None:
        """Prepares the memory for all tokens to come; `values`, its normalised form, may be shared by all blocks."""
        past.memory = self.cross_attention.remember(memory, values, padding)

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        memory: Float[Tensor, "sentences k d"] | None,
        normalised_memory: Float[Tensor, "sentences k d"] | None,
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        memory_padding_mask: Bool[Tensor, "sentences k"] | None = None,
        trace: Trace | None = None,
        past: BlockPast | None = None,
    ) -> Float[Tensor, "batch n d"]:
        stream = None if past is None else past.stream
        state = self.self_attention.begin(x, key_padding_mask=key_padding_mask, causal=True, stream=stream)
        if past is not None and past.memory is not None:
            cross = self.cross_attention.recall(_by_sentence(x, past.memory.sentences), past.memory)
        else:
            assert memory is not None
            queries = _by_sentence(x, memory.shape[0])
            cross = self.cross_attention.begin(queries, memory, key_padding_mask=memory_padding_mask)
        for depth in self.depths:
            if trace is not None:
                trace.enter(x)
                trace.attend(state, cross, depth.l, x.shape[0])
            step = partial(depth, self.self_attention, state, self.cross_attention, cross, normalised_memory)
            x = self.run(step, x)
        return self.norm(x)


def _by_sentence(x: Float[Tensor, "batch n d"], sentences: int) -> Float[Tensor, "sentences queries d"]:
    """The tokens of all rows of a sentence, one after the other."""
    rows = x.shape[0]
    if rows == sentences:
        return x
    if rows % sentences:
        raise ValueError(f"{rows} rows are no whole number of beams for each of {sentences} sentences of the memory")
    return x.reshape(sentences, -1, x.shape[-1])


def normalised(memory: Float[Tensor, "batch k d"], eps: float) -> Float[Tensor, "batch k d"]:
    """Layer norm without gain and offset: the one form of the memory that all depths share."""
    return layer_norm(memory, memory.shape[-1:], eps=eps)
