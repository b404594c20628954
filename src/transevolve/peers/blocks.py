"""Sequences cut into blocks, whatever their length: the tail of the last block is padding like any other."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from .heads import Attention, softmax_attention


def whole_blocks(
    x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, block: int
) -> tuple[Float[Tensor, "batch longer d"], Bool[Tensor, "batch longer"] | None]:
    """Zeros up to the next multiple of `block`, and a mask that hides them; no mask where nothing is hidden."""
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
    """Each block of queries attends to its own keys; blocks are then joined.

    To the kernel every block is a sequence of its own with one head: it then needs no copy to put heads in order.
    """
    lead = q.shape[:3]
    if visible is not None:
        visible = visible.expand(*lead, -1, -1).flatten(0, 2)[:, None]
    mixed = softmax_attention(*(t.flatten(0, 2)[:, None] for t in (q, k, v)), visible=visible)
    return mixed.view(*lead, *mixed.shape[2:]).flatten(2, 3)


class BlockAttention(Attention):
    """Attention that works by blocks of `self.block` tokens: `attend` gets whole ones."""

    block: int

    def mix(self, x, key_padding_mask, causal):
        longer, mask = whole_blocks(x, key_padding_mask, self.block)
        return super().mix(longer, mask, causal)[:, : x.shape[1]]
