"""Base class and helpers of multi-head attention: Q, K and V in one product, and an output projection."""

import math
from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..evolution.initial import merge_heads
from ..evolution.linear import Linear
from .base import Mixer, MixerShape


def softmax_attention(
    q: Float[Tensor, "batch heads q part"],
    k: Float[Tensor, "batch heads k part"],
    v: Float[Tensor, "batch heads k part"],
    visible: Bool[Tensor, "#batch #heads #q k"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "batch heads q part"]:
    """PyTorch's fused attention; the output is zero for a query that sees no key."""
    if visible is None:
        return scaled_dot_product_attention(q, k, v, scale=scale)
    without = ~visible.any(-1, keepdim=True)
    # A query without keys sees all of them and its output is then set to zero: no kernel gets an empty softmax.
    mixed = scaled_dot_product_attention(q, k, v, attn_mask=visible | without, scale=scale)
    return mixed.masked_fill(without, 0.0)


def real_tokens(
    x: Float[Tensor, "batch heads n part"], key_padding_mask: Bool[Tensor, "batch n"] | None
) -> Bool[Tensor, "batch n"]:
    """Returns a mask that is False at padding."""
    return x.new_ones(x.shape[0], x.shape[2], dtype=torch.bool) if key_padding_mask is None else ~key_padding_mask


def glorot_(weight: Tensor, inputs: int, outputs: int) -> None:
    limit = math.sqrt(6 / (inputs + outputs))
    nn.init.uniform_(weight, -limit, limit)


def seeded_normal_(buffer: Tensor, seed: int) -> None:
    """Fills a buffer with standard normal draws, except on the meta device."""
    if not buffer.is_meta:
        buffer.copy_(torch.from_numpy(np.random.RandomState(seed).standard_normal(tuple(buffer.shape))))


class Attention(Mixer):
    """Projections without biases, as in Vaswani et al.; a subclass implements `attend`."""

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.projections = Linear(shape.hidden_size, 3 * shape.hidden_size, bias=False)
        self.output = Linear(shape.hidden_size, shape.hidden_size, bias=False)

    def reset_parameters(self) -> None:
        """Glorot initialization, with separate fans for each of the four matrices."""
        for linear in (self.projections, self.output):
            glorot_(linear.weight, self.shape.hidden_size, self.shape.hidden_size)

    def mix(
        self, x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool
    ) -> Float[Tensor, "batch n d"]:
        q, k, v = self.projections(x).unflatten(-1, (3, self.shape.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.output(merge_heads(self.attend(q, k, v, key_padding_mask, causal)))

    @abstractmethod
    def attend(
        self,
        q: Float[Tensor, "batch heads n part"],
        k: Float[Tensor, "batch heads n part"],
        v: Float[Tensor, "batch heads n part"],
        key_padding_mask: Bool[Tensor, "batch n"] | None,
        causal: bool,
    ) -> Float[Tensor, "batch heads n part"]: ...
