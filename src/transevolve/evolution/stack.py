"""A plain stack of encoder blocks on (batch, n, d): text, series, images, anything that is a sequence of vectors."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .block import BlockOptions, DecoderBlock, EncoderBlock, Trace, normalised
from .decoder_state import DecoderPast
from .initial import split_heads
from .settings import EvolutionSettings


class EvolvedEncoder(nn.Module):
    """`num_blocks` blocks of `block_depth` depths; each block starts a new initial condition.

        encoder = EvolvedEncoder(256, 8, num_blocks=1, block_depth=6)
        y = encoder(x, key_padding_mask=None, causal=False)

    `backend` names how attention is computed; further keywords are those of `EvolutionSettings`.
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

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Float[Tensor, "batch n d"]:
        for block in self.blocks:
            x = block(x, key_padding_mask, causal, trace)
        return x


class EvolvedDecoder(nn.Module):
    """Decoder blocks over one memory, which is normalised once for all blocks and depths."""

    def __init__(self, options: BlockOptions, num_blocks: int):
        super().__init__()
        self.options = options
        self.blocks = nn.ModuleList(DecoderBlock(options, 1, b) for b in range(num_blocks))

    def past(self, limit: int | None = None) -> DecoderPast:
        """An empty past, for decoding token by token; `limit` is a length that will suffice, if one is known."""
        return DecoderPast([block.past(limit) for block in self.blocks])

    def remember(
        self,
        past: DecoderPast,
        memory: Float[Tensor, "sentences k d"],
        memory_padding_mask: Bool[Tensor, "sentences k"] | None = None,
    ) -> None:
        """Prepares the memory for every block: keys for each, and one normalised copy for all."""
        values = split_heads(normalised(memory, self.options.norm_eps), self.options.num_attention_heads).contiguous()
        past.values = values
        for block, kept in zip(self.blocks, past.blocks, strict=True):
            block.remember(kept, memory, values, memory_padding_mask)

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        memory: Float[Tensor, "sentences k d"] | None,
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        memory_padding_mask: Bool[Tensor, "sentences k"] | None = None,
        trace: Trace | None = None,
        past: DecoderPast | None = None,
    ) -> Float[Tensor, "batch n d"]:
        """With a past, `x` are the tokens that follow it, and the memory it remembers is not needed again."""
        values = None
        if past is None:
            assert memory is not None
            values = normalised(memory, self.options.norm_eps)
        elif past.values is None:
            if memory is None:
                raise ValueError("a past that remembers no memory yet needs one")
            self.remember(past, memory, memory_padding_mask)
        for i, block in enumerate(self.blocks):
            kept = None if past is None else past.blocks[i]
            x = block(x, memory, values, key_padding_mask, memory_padding_mask, trace, kept)
        return x
