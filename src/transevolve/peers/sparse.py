"""The Sparse Transformer (Child et al., 2019): two sparse patterns that together reach every token in two layers.

    fixed:    keys of the same block of l tokens      |  summaries: the last c tokens of every block
    strided:  keys less than l tokens away            |  keys a multiple of l tokens away

The first half of the heads uses the left pattern, the second half the right one: n (l + c n/l) or n (l + n/l) scores
instead of n^2.

Differs from the paper: patterns are bidirectional unless `causal` is set. Heads are split between the patterns (the
paper's third way to combine them); the Long Range Arena merges both in each head, with a dense n x n mask that is
causal even in classification. As in the Arena, the first token of a block is also a summary.
"""

from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.nn.functional import pad

from ..evolution.masks import visible_keys
from .base import Capabilities, MixerShape
from .blocks import BlockAttention, block_attention
from .heads import real_tokens, softmax_attention
from .settings import Count
from .system import System


class SparseAttention(BlockAttention):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False, export=False)

    def __init__(
        self,
        shape: MixerShape,
        pattern: Literal["fixed", "strided"] = "fixed",
        block: Count = 128,
        summaries: Count = 32,
    ):
        super().__init__(shape)
        if shape.num_heads < 2:
            raise ValueError("system 'sparse-transformer' splits its heads between two patterns: use at least 2 heads")
        if summaries >= block:
            raise ValueError(
                f"system 'sparse-transformer': summaries={summaries} must be fewer than the block of {block} tokens"
            )
        self.pattern, self.block, self.summaries = pattern, block, summaries
        self.reset_parameters()

    def attend(self, q, k, v, key_padding_mask, causal):
        near = self.shape.num_heads // 2
        patterns = (self._band, self._column) if self.pattern == "strided" else (self._own_block, self._summaries)
        halves = zip(patterns, (slice(0, near), slice(near, None)), strict=True)
        return torch.cat([attend(q[:, h], k[:, h], v[:, h], key_padding_mask, causal) for attend, h in halves], 1)

    def _own_block(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, causal: bool) -> Tensor:
        mask = None if key_padding_mask is None else key_padding_mask.unflatten(1, (-1, self.block))
        visible = _visible_within(mask, self.block, causal, q.device)
        return block_attention(*(t.unflatten(2, (-1, self.block)) for t in (q, k, v)), visible=visible)

    def _summaries(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, causal: bool) -> Tensor:
        n, block = q.shape[2], self.block
        chosen = torch.tensor([0, *range(block - self.summaries, block)], device=q.device)
        places = (torch.arange(0, n, block, device=q.device)[:, None] + chosen).flatten()
        visible = None if key_padding_mask is None else ~key_padding_mask[:, None, None, places]
        if causal:
            past = places <= torch.arange(n, device=q.device)[:, None]
            visible = past[None, None] if visible is None else visible & past
        return softmax_attention(q, k[:, :, places], v[:, :, places], visible)

    def _band(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, causal: bool) -> Tensor:
        """Each block attends to itself and its neighbours, within the band."""
        reach = (1, 0) if causal else (1, 1)
        i = torch.arange(self.block, device=q.device)[:, None]
        j = torch.arange(-self.block, self.block * (1 + reach[1]), device=q.device)
        band = (j - i).abs() < self.block
        if causal:
            band = band & (j <= i)
        real = real_tokens(q, key_padding_mask).unflatten(1, (-1, self.block))[:, None, ..., None]
        q, k, v = (t.unflatten(2, (-1, self.block)) for t in (q, k, v))
        visible = _neighbours(real, *reach).mT & band
        return block_attention(q, _neighbours(k, *reach), _neighbours(v, *reach), visible)

    def _column(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None, causal: bool) -> Tensor:
        """The tokens at the same position of all blocks attend to each other."""
        q, k, v = (t.unflatten(2, (-1, self.block)).transpose(2, 3) for t in (q, k, v))
        mask = None if key_padding_mask is None else key_padding_mask.unflatten(1, (-1, self.block)).mT
        mixed = block_attention(q, k, v, _visible_within(mask, q.shape[3], causal, q.device))
        return mixed.unflatten(2, (self.block, -1)).transpose(2, 3).flatten(2, 3)


def _visible_within(
    mask: Bool[Tensor, "batch parts n"] | None, n: int, causal: bool, device: torch.device
) -> Bool[Tensor, "#batch 1 #parts #n n"] | None:
    """Returns which keys each token sees in its part of the sequence; `mask` is True at keys to ignore."""
    visible = visible_keys(n, None if mask is None else mask.flatten(0, 1), causal, device)
    if visible is None:
        return None
    return visible.unflatten(0, (1, 1) if mask is None else mask.shape[:2]).transpose(1, 2)


def _neighbours(blocks: Tensor, before: int, after: int) -> Tensor:
    """(batch, heads, count, block, part): concatenates each block with its neighbours, zeros beyond the ends."""
    count = blocks.shape[2]
    around = pad(blocks, (0, 0, 0, 0, before, after))
    return torch.cat([around[:, :, i : i + count] for i in range(before + after + 1)], 3)


SPARSE_TRANSFORMER = System(
    "sparse-transformer",
    "Child et al., Generating Long Sequences with Sparse Transformers, 2019",
    "n (l + c n/l) d, blocks of l",
    "sdpa",
    SparseAttention.capabilities,
    SparseAttention,
)
