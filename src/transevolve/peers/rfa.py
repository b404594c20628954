"""Random feature attention (Peng et al., 2021): a Gaussian kernel with sine and cosine features.

    sim(q, k) = phi(q) . phi(k) ~ exp(-|q' - k'|^2 / 2),    phi(x) = sqrt(2/f) [sin(W x'), cos(W x')]

where x' = sigma * x / |x|, W has f/2 Gaussian rows, and sigma is learned for each channel of a head. `features` is f,
the width of phi, half sines and half cosines, so the cost is that of f features in Performer and TransEvolve.

Differs from the paper: W is drawn from a seed, once per layer, not from a pool of draws at every step. The gate, a
recurrence over time, is omitted: it has no meaning if every token attends to all others. Sines can make a normalizer
vanish, so it is at least 0.01 per visible key.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..evolution.initial import at_least_float32
from .base import Capabilities, MixerShape
from .heads import Attention, seeded_normal_
from .kernel import kernel_attention, seen_keys, without_padding
from .settings import Count, Seed
from .system import System

LEAST = 0.01


class RandomFeatureAttention(Attention):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=True)
    directions: Tensor

    def __init__(self, shape: MixerShape, features: Count = 64, seed: Seed = 0):
        super().__init__(shape)
        if features % 2:
            raise ValueError(f"system 'rfa': features must be even, half sines and half cosines, got {features}")
        self.seed = shape.draw_seed(seed)
        self.sigma = nn.Parameter(torch.empty(shape.num_heads, 1, shape.part))
        self.register_buffer("directions", torch.empty(features // 2, shape.part))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.ones_(self.sigma)
        seeded_normal_(self.directions, self.seed)

    def features(self, x: Float[Tensor, "batch heads n part"]) -> Float[Tensor, "batch heads n features"]:
        """Returns phi(x) without the factor sqrt(2/f), which cancels."""
        angles = (normalize(x, dim=-1) * self.sigma.to(x.dtype)) @ self.directions.to(x.dtype).mT
        return torch.cat([angles.sin(), angles.cos()], -1)

    def attend(self, q, k, v, key_padding_mask, causal):
        wide = at_least_float32(q.dtype)
        with torch.autocast(q.device.type, enabled=False):
            queries, keys = self.features(q.to(wide)), self.features(k.to(wide))
            least = LEAST * len(self.directions) * seen_keys(queries, key_padding_mask, causal)
            keys = without_padding(keys, key_padding_mask)
            return kernel_attention(queries, keys, v.to(wide), causal, least).to(v.dtype)


RFA = System(
    "rfa",
    "Peng et al., Random Feature Attention, ICLR 2021",
    "n f d, f features",
    "eager",
    RandomFeatureAttention.capabilities,
    RandomFeatureAttention,
)
