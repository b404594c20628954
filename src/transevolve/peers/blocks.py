"""Attention by blocks for sequences of any length; the end of the last block is padding."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from .heads import Attention, softmax_attention


def pad_to_blocks(
    x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, block: int
) -> tuple[Float[Tensor, "batch longer d"], Bool[Tensor, "batch longer"] | None]:
    """Pads with zeros to a multiple of `block`; returns the mask that ignores them, or None if nothing is ignored."""
    extra = -x.shape[1] % block
    if key_padding_mask is None:
        if not torch.compiler.is_compiling() and extra == 0:
            return x, None
        key_padding_mask = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    return pad(x, (0, 0, 0, extra)), pad(key_padding_mask, (0, extra), value=True)


def block_attention(
    q: Float[Tensor, "batch heads blocks q part"],
    k: Float[Tensor, "batch heads blocks k part"],
    v: Float[Tensor, "batch heads blocks k part"],
    visible: Bool[Tensor, "#batch #heads #blocks #q k"] | None = None,
) -> Float[Tensor, "batch heads n part"]:
    """Attention of each block of queries to its own keys; the blocks are then concatenated.

    The kernel receives every block as a separate sequence with one head, which avoids a copy to reorder heads.
    """
    lead = q.shape[:3]
    if visible is not None:
        visible = visible.expand(*lead, -1, -1).flatten(0, 2)[:, None]
    mixed = softmax_attention(*(t.flatten(0, 2)[:, None] for t in (q, k, v)), visible=visible)
    return mixed.view(*lead, *mixed.shape[2:]).flatten(2, 3)


class BlockAttention(Attention):
    """Attention by blocks of `self.block` tokens; `attend` gets inputs padded to full blocks."""

    block: int

    def mix(self, x, key_padding_mask, causal):
        longer, mask = pad_to_blocks(x, key_padding_mask, self.block)
        return super().mix(longer, mask, causal)[:, : x.shape[1]]
