"""The Transformer (Vaswani et al., 2017): Softmax(Q K^T / sqrt(d/m)) V Wo, fused or with an explicit matrix.

Differs from the paper: dropout is applied to the output, not to attention weights.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from ..evolution.initial import at_least_float32
from ..evolution.masks import visible_keys
from .base import Capabilities, MixerShape
from .heads import Attention, softmax_attention
from .system import System

CITATION = "Vaswani et al., Attention Is All You Need, NeurIPS 2017"
CAPABILITIES = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False)


class FusedAttention(Attention):
    """`scaled_dot_product_attention`: no n x n matrix is kept if the device has a fused kernel."""

    capabilities = CAPABILITIES

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.reset_parameters()

    def attend(self, q, k, v, key_padding_mask, causal):
        if key_padding_mask is None:
            return scaled_dot_product_attention(q, k, v, is_causal=causal)
        return softmax_attention(q, k, v, visible_keys(q.shape[2], key_padding_mask, causal, q.device))


class EagerAttention(Attention):
    """Explicit attention matrix, softmax in at least float32: the paper's baseline, and the reference."""

    capabilities = CAPABILITIES

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.reset_parameters()

    def attend(self, q, k, v, key_padding_mask, causal):
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        wide = at_least_float32(scores.dtype)
        visible = visible_keys(q.shape[2], key_padding_mask, causal, q.device)
        if visible is None:
            return scores.softmax(-1, dtype=wide).to(v.dtype) @ v
        scores.masked_fill_(~visible, torch.finfo(scores.dtype).min)
        mixed = scores.softmax(-1, dtype=wide).to(v.dtype) @ v
        return mixed.masked_fill(~visible.any(-1, keepdim=True), 0.0)


TRANSFORMER = System("transformer", CITATION, "n^2 d", "sdpa", CAPABILITIES, FusedAttention)
TRANSFORMER_EAGER = System("transformer-eager", CITATION, "n^2 d", "eager", CAPABILITIES, EagerAttention)
