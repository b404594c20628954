"""Stacks of blocks on (batch, n, d): any sequence of vectors."""

from typing import Any, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .backends.state import Stream
from .block import BlockOptions, DecoderBlock, EncoderBlock, Trace, normalize_without_affine
from .decoder_state import DecoderState
from .initial import split_heads
from .reads import one_read
from .settings import EvolutionSettings


class EvolvedEncoder(nn.Module):
    """`num_blocks` blocks of `block_depth` depths; each block starts a new initial condition.

        encoder = EvolvedEncoder(256, 8, num_blocks=1, block_depth=6)
        y = encoder(x, key_padding_mask=None, causal=False)

    `backend` names the attention backend; further keywords are fields of `EvolutionSettings`.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_blocks: int = 1,
        block_depth: int = 6,
        intermediate_size: int | None = None,
        *,
        backend: str = EvolutionSettings.attention,
        **options: Any,
    ):
        super().__init__()
        width = intermediate_size or 4 * hidden_size
        shape = {"hidden_size": hidden_size, "num_attention_heads": num_heads, "intermediate_size": width}
        self._build(BlockOptions(depth=block_depth, attention=backend, **shape, **options), num_blocks)

    def _build(self, options: BlockOptions, num_blocks: int) -> None:
        self.options = options
        self.blocks = nn.ModuleList(EncoderBlock(options, 0, b) for b in range(num_blocks))

    @classmethod
    def from_options(cls, options: BlockOptions, num_blocks: int) -> "EvolvedEncoder":
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._build(options, num_blocks)
        return encoder

    def streams(self, limit: int | None = None) -> list[Stream]:
        """An empty past per block, for causal decoding; `limit` is the largest length, if known."""
        return [cast(EncoderBlock, block).attention.stream(limit) for block in self.blocks]

    @one_read
    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
        streams: list[Stream] | None = None,
    ) -> Float[Tensor, "batch n d"]:
        """With streams, `x` are their next tokens."""
        for i, block in enumerate(self.blocks):
            x = block(x, key_padding_mask, causal, trace, None if streams is None else streams[i])
        return x


class EvolvedDecoder(nn.Module):
    """Decoder blocks on one encoder output, which is normalized once for all blocks and depths."""

    def __init__(self, options: BlockOptions, num_blocks: int):
        super().__init__()
        self.options = options
        self.blocks = nn.ModuleList(DecoderBlock(options, 1, b) for b in range(num_blocks))

    def streams(self, limit: int | None = None) -> list[Stream]:
        """An empty past per block, for a `DecoderState`; `limit` is the largest length, if known."""
        return [cast(DecoderBlock, block).self_attention.stream(limit) for block in self.blocks]

    @one_read
    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        memory: Float[Tensor, "sentences k d"] | None,
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        memory_key_padding_mask: Bool[Tensor, "sentences k"] | None = None,
        trace: Trace | None = None,
        state: DecoderState | None = None,
    ) -> Float[Tensor, "batch n d"]:
        """With a state, `x` are its next tokens, and the memory is needed only in the first call."""
        values = None
        if state is None or not state.prepared:
            if memory is None:
                raise ValueError("the decoder needs a memory: there is none in the state")
            values = normalize_without_affine(memory, self.options.resolved_eps)
        if state is None:
            for block in self.blocks:
                x = block(x, memory, values, key_padding_mask, memory_key_padding_mask, trace)
            return x
        if values is not None:
            assert memory is not None
            heads = split_heads(values, self.options.num_attention_heads).contiguous()
            attentions = [cast(DecoderBlock, block).cross_attention for block in self.blocks]
            state.prepare(heads, [a.remember(memory, heads, memory_key_padding_mask) for a in attentions])
        for block, stream, prepared in zip(self.blocks, state.streams, state.prepared, strict=True):
            x = block(x, None, None, key_padding_mask, trace=trace, stream=stream, prepared=prepared)
        return x
