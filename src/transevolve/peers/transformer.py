"""The Transformer (Vaswani et al., 2017): Softmax(Q K^T / sqrt(d/m)) V Wo, fused or with its matrix.

Projections have no biases, as in Vaswani et al. and tensor2tensor. Differs from them: attention weights are not
dropped out, the output is.
"""

import math
from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .base import Capabilities, Mixer, MixerShape, System

CITATION = "Vaswani et al., Attention Is All You Need, NeurIPS 2017"


def visible_keys(
    n: int, key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, device: torch.device
) -> Bool[Tensor, "#batch 1 #n n"] | None:
    """True where a query may see a key; None where every query sees every key."""
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=device).tril()[None, None]
        mask = past if mask is None else mask & past
    return mask


class Attention(Mixer):
    """Q, K and V in one product; the two subclasses differ in how they combine them."""

    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False)

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.projections = nn.Linear(shape.hidden_size, 3 * shape.hidden_size, bias=False)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot, with the fans of each of the four matrices."""
        limit = math.sqrt(3 / self.shape.hidden_size)
        for linear in (self.projections, self.output):
            nn.init.uniform_(linear.weight, -limit, limit)

    def mix(
        self, x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool
    ) -> Float[Tensor, "batch n d"]:
        q, k, v = self.projections(x).unflatten(-1, (3, self.shape.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.output(self.attend(q, k, v, key_padding_mask, causal).transpose(1, 2).flatten(2))

    @abstractmethod
    def attend(
        self,
        q: Float[Tensor, "batch heads n part"],
        k: Float[Tensor, "batch heads n part"],
        v: Float[Tensor, "batch heads n part"],
        key_padding_mask: Bool[Tensor, "batch n"] | None,
        causal: bool,
    ) -> Float[Tensor, "batch heads n part"]: ...


class FusedAttention(Attention):
    """`scaled_dot_product_attention`: no n x n matrix is kept where the device has a fused kernel."""

    def attend(self, q, k, v, key_padding_mask, causal):
        if key_padding_mask is None:
            return scaled_dot_product_attention(q, k, v, is_causal=causal)
        visible = visible_keys(q.shape[2], key_padding_mask, causal, q.device)
        assert visible is not None
        sighted = visible.any(-1, keepdim=True)
        # A blind query looks everywhere and is then zeroed, so that no kernel ever meets an empty softmax.
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=visible | ~sighted)
        return mixed.masked_fill(~sighted, 0.0)


class EagerAttention(Attention):
    """The attention matrix itself, softmax in float32 at least: the paper's yardstick, and the reference."""

    def attend(self, q, k, v, key_padding_mask, causal):
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        wide = torch.promote_types(scores.dtype, torch.float32)
        visible = visible_keys(q.shape[2], key_padding_mask, causal, q.device)
        if visible is None:
            return scores.softmax(-1, dtype=wide).to(v.dtype) @ v
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        return scores.softmax(-1, dtype=wide).masked_fill(~visible, 0.0).to(v.dtype) @ v


TRANSFORMER = System("transformer", CITATION, "n^2 d", "sdpa", Attention.capabilities, FusedAttention)
TRANSFORMER_EAGER = System("transformer-eager", CITATION, "n^2 d", "eager", Attention.capabilities, EagerAttention)
