"""What all forms of multi-head attention share: Q, K and V in one product, and an output projection."""

import math
from abc import abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .base import Mixer, MixerShape


def visible_keys(
    n: int, key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, device: torch.device
) -> Bool[Tensor, "#batch 1 #n n"] | None:
    """True where a query may see a key; None where every query sees every key."""
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=device).tril()[None, None]
        mask = past if mask is None else mask & past
    return mask


def softmax_attention(
    q: Float[Tensor, "batch heads q part"],
    k: Float[Tensor, "batch heads k part"],
    v: Float[Tensor, "batch heads k part"],
    visible: Bool[Tensor, "#batch #heads #q k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "batch heads q part"]:
    """PyTorch's fused attention; a query that sees no key gets zeros."""
    if visible is None:
        return scaled_dot_product_attention(q, k, v, scale=scale)
    sighted = visible.any(-1, keepdim=True)
    # A blind query looks everywhere and is then zeroed, so that no kernel ever meets an empty softmax.
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=visible | ~sighted, scale=scale)
    return mixed.masked_fill(~sighted, 0.0)


def inverse(normaliser: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """1 / normaliser, and 0 where a query sees no key."""
    blind = normaliser <= 0
    return (1 / normaliser.masked_fill(blind, 1.0)).masked_fill(blind, 0.0)


def glorot_(weight: Tensor, inputs: int, outputs: int) -> None:
    limit = math.sqrt(6 / (inputs + outputs))
    nn.init.uniform_(weight, -limit, limit)


class Attention(Mixer):
    """Projections without biases, as in Vaswani et al.; a subclass says how queries, keys and values combine."""

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.projections = nn.Linear(shape.hidden_size, 3 * shape.hidden_size, bias=False)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)

    def reset_parameters(self) -> None:
        """Glorot, with the fans of each of the four matrices."""
        for linear in (self.projections, self.output):
            glorot_(linear.weight, self.shape.hidden_size, self.shape.hidden_size)

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
