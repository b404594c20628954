"""A plain stack of encoder blocks on (batch, n, d): text, series, images, anything that is a sequence of vectors."""

from dataclasses import fields

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .block import BlockOptions, DecoderBlock, EncoderBlock, Trace, normalised


class EvolvedEncoder(nn.Module):
    """`num_blocks` blocks of `block_depth` depths; each block starts a new initial condition.

        encoder = EvolvedEncoder(256, 8, num_blocks=1, block_depth=6)
        y = encoder(x, key_padding_mask=None, causal=False)

    Further keywords are those of `BlockOptions`.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        num_blocks: int = 1,
        block_depth: int = 6,
        intermediate_size: int | None = None,
        **options,
    ):
        super().__init__()
        shape = (hidden_size, num_heads, intermediate_size or 4 * hidden_size, block_depth)
        self.options = BlockOptions(*shape, **options)
        self.blocks = nn.ModuleList(EncoderBlock(self.options, 0, b) for b in range(num_blocks))

    @classmethod
    def from_options(cls, options: BlockOptions, num_blocks: int) -> "EvolvedEncoder":
        given = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in ("num_heads", "depth")}
        return cls(num_heads=options.num_heads, num_blocks=num_blocks, block_depth=options.depth, **given)

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

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        memory: Float[Tensor, "batch k d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        memory_padding_mask: Bool[Tensor, "batch k"] | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, "batch n d"]:
        values = normalised(memory, self.options.layer_norm_eps)
        for block in self.blocks:
            x = block(x, memory, values, key_padding_mask, memory_padding_mask, trace)
        return x
