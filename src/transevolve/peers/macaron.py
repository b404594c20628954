"""Macaron (Lu et al., 2020): a layer derived by Strang splitting, with depth as time.

    h1 = x + FF1(LayerNorm(x)) / 2;  h2 = h1 + Attention(LayerNorm(h1));  x' = h2 + FF2(LayerNorm(h2)) / 2

Both feed-forwards are half as wide as a Transformer's, so that the number of parameters is equal, as in the paper.

Differs from the paper: pre-norm, as in all systems of the skeleton.
"""

from copy import copy

from torch import nn

from ..evolution.feedforward import FullFeedForward
from ..evolution.settings import LayerSettings
from .base import Mixer
from .layer import PeerLayer
from .system import System
from .transformer import CAPABILITIES, FusedAttention


class MacaronLayer(PeerLayer):
    def __init__(self, mixer: Mixer, settings: LayerSettings):
        settings = copy(settings)
        settings.intermediate_size = max(1, settings.intermediate_size // 2)
        super().__init__(mixer, settings)
        self.first_norm = nn.LayerNorm(settings.hidden_size, eps=settings.resolved_eps)
        self.first_feedforward = FullFeedForward(settings)

    def forward(self, key_padding_mask, causal, shared, x):
        h = self.dropout.add(x, 0.5 * self.first_feedforward(self.first_norm(x)))
        h = self.dropout.add(h, self.mixed(h, key_padding_mask, causal, shared))
        return self.dropout.add(h, 0.5 * self.feedforward(self.feedforward_norm(h)))


MACARON = System(
    "macaron",
    "Lu et al., Understanding and Improving Transformer From a Multi-Particle Dynamic System Point of View, 2020",
    "n^2 d",
    "sdpa",
    CAPABILITIES,
    FusedAttention,
    MacaronLayer,
)
