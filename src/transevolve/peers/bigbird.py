"""Big Bird (Zaheer et al., 2020): block-sparse attention with a window, global blocks and random blocks.

A block of queries attends to itself, its two neighbours, the global blocks and some random blocks, each key once. The
global blocks attend to all keys.

Differs from the paper and the Long Range Arena: the global blocks are the first two (theirs are the first and the
last, but the last is padding in most sequences of a batch). Random blocks are drawn from the blocks of a sequence that
are not padding, by a hash of seed, layer, head and the two blocks. Any length works, and padding does not change the
draw.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .base import Capabilities, MixerShape
from .blocks import BlockAttention, block_attention
from .heads import real_tokens, softmax_attention
from .settings import Count, Seed
from .system import System

WINDOW = 3


class BigBird(BlockAttention):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=False, stochastic=True, export=False)

    def __init__(
        self,
        shape: MixerShape,
        block: Count = 64,
        global_blocks: Count = 2,
        random_blocks: Count = 3,
        seed: Seed = 0,
    ):
        super().__init__(shape)
        self.block, self.global_blocks, self.random_blocks = block, global_blocks, random_blocks
        self.seed = shape.draw_seed(seed)
        self.reset_parameters()

    def attend(self, q, k, v, key_padding_mask, causal):
        everywhere = None if key_padding_mask is None else ~key_padding_mask[:, None, None]
        first = min(self.global_blocks * self.block, q.shape[2])
        top = softmax_attention(q[:, :, :first], k, v, everywhere)
        if first == q.shape[2]:
            return top
        return torch.cat([top, self._sparse(q[:, :, first:], k, v, key_padding_mask)], 2)

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Attention of the blocks after the global ones; the blocks that each attends to are gathered as rows."""
        batch, heads, n, part = k.shape
        count = n // self.block
        real = real_tokens(k, key_padding_mask).unflatten(1, (count, self.block))
        seen, shown = self.neighbourhood(real.any(-1))
        row = torch.arange(0, batch * heads * count, count, device=k.device).view(batch, heads, 1, 1)
        rows = (row + seen).flatten()
        keys, values = (
            t.reshape(-1, self.block * part).index_select(0, rows).view(*seen.shape[:3], -1, part) for t in (k, v)
        )
        sequence = torch.arange(batch, device=k.device).view(-1, 1, 1, 1)
        visible = (real[sequence, seen] & shown[..., None]).flatten(3)[..., None, :]
        return block_attention(q.unflatten(2, (-1, self.block)), keys, values, visible)

    def neighbourhood(
        self, real: Bool[Tensor, "batch blocks"]
    ) -> tuple[Int[Tensor, "batch heads queries seen"], Bool[Tensor, "batch heads queries seen"]]:
        """Returns the global blocks, window and random blocks of each block of queries, and a mask of the valid ones:
        a global neighbour counts once, and there are no neighbours beyond the last block."""
        batch, count = real.shape
        place = torch.arange(count, device=real.device)[self.global_blocks :, None]
        top = torch.arange(self.global_blocks, device=real.device).expand(len(place), -1)
        window = place + torch.arange(WINDOW, device=real.device) - WINDOW // 2
        fixed = torch.cat([top, window.clamp(max=count - 1)], -1).expand(batch, self.shape.num_heads, -1, -1)
        inside = (window >= self.global_blocks) & (window < count)
        counted = torch.cat([torch.ones_like(top, dtype=torch.bool), inside], -1).expand_as(fixed)
        random, found = self.draw(real)
        return torch.cat([fixed, random], -1), torch.cat([counted, found], -1)

    def draw(
        self, real: Bool[Tensor, "batch blocks"]
    ) -> tuple[Int[Tensor, "batch heads queries random"], Bool[Tensor, "batch heads queries random"]]:
        """Returns the random blocks of each block of queries, and a mask of those that exist."""
        heads = torch.arange(self.shape.num_heads, device=real.device)[:, None, None]
        key_block = torch.arange(real.shape[1], device=real.device)
        query_block = key_block[self.global_blocks :, None]
        scores = _hash(((self.seed * 1021 + heads) * 65537 + query_block) * 65537 + key_block)
        free = ((query_block - key_block).abs() > WINDOW // 2) & (key_block >= self.global_blocks)
        scores = scores.masked_fill(~(free & real[:, None, None]), -1)
        best = scores.topk(min(self.random_blocks, real.shape[1]), -1)
        return best.indices, best.values >= 0


def _hash(x: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Returns a well-mixed, non-negative hash."""
    for _ in range(2):
        x = (x ^ ((x >> 31) & 0x1FFFFFFFF)) * 0x2545F4914F6CDD1D
    return (x >> 17) & 0x3FFFFFFFFFFF


BIGBIRD = System(
    "bigbird",
    "Zaheer et al., Big Bird: Transformers for Longer Sequences, NeurIPS 2020",
    "n l d, l keys in 8 blocks",
    "sdpa",
    BigBird.capabilities,
    BigBird,
)
