"""Performer (Choromanski et al., 2021): the softmax kernel with positive orthogonal random features, FAVOR+.

    exp(q . k / sqrt(d/m)) ~ phi(q) . phi(k),    phi(x) = exp(W x' - |x'|^2 / 2) / sqrt(f),    x' = x (d/m)^(-1/4)

The f rows of W have Gaussian norms and are orthogonal in groups of d/m. TransEvolve's `linear` backend uses the same
feature map.

Differs from the paper: W is drawn from a seed, once per layer, and not redrawn during training. The largest feature of
a key is stored separately as its weight, so that a large key does not make the features of other keys underflow.
"""

import torch
from torch import Tensor

from ..evolution.features import orthogonal_features, positive_features
from ..evolution.initial import at_least_float32
from .base import Capabilities, MixerShape
from .heads import Attention
from .kernel import kernel_attention, without_padding
from .settings import Count, Seed
from .system import System


class Performer(Attention):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=True)
    directions: Tensor

    def __init__(self, shape: MixerShape, features: Count = 64, seed: Seed = 0):
        super().__init__(shape)
        self.seed = shape.draw_seed(seed)
        self.register_buffer("directions", torch.empty(features, shape.part))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if not self.directions.is_meta:
            self.directions.copy_(orthogonal_features(*self.directions.shape, seed=self.seed))

    def attend(self, q, k, v, key_padding_mask, causal):
        wide = at_least_float32(q.dtype)
        scale = q.shape[-1] ** -0.25
        with torch.autocast(q.device.type, enabled=False):
            queries, _ = positive_features(q.to(wide) * scale, self.directions)
            keys, log = positive_features(k.to(wide) * scale, self.directions)
            if key_padding_mask is not None:
                log = log.masked_fill(key_padding_mask[:, None], torch.finfo(wide).min)
            keys = keys * torch.exp(log - log.amax(-1, keepdim=True))[..., None]
            return kernel_attention(queries, without_padding(keys, key_padding_mask), v.to(wide), causal).to(v.dtype)


PERFORMER = System(
    "performer",
    "Choromanski et al., Rethinking Attention with Performers, ICLR 2021",
    "n f d, f features",
    "eager",
    Performer.capabilities,
    Performer,
)
