"""The layer around a mixer, as in `EvolvedEncoder`, so that systems differ only in their mixers."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..evolution.dropout import Dropout
from ..evolution.feedforward import FullFeedForward
from ..evolution.settings import LayerSettings
from .base import Mixer, SharingMixer


class PeerLayer(nn.Module):
    """h = x + Mixer(LayerNorm(x)); x' = h + FF(LayerNorm(h)); dropout on both branches."""

    def __init__(self, mixer: Mixer, settings: LayerSettings):
        super().__init__()
        self.mixer_norm = nn.LayerNorm(settings.hidden_size, eps=settings.resolved_eps)
        self.mixer = mixer
        self.feedforward_norm = nn.LayerNorm(settings.hidden_size, eps=settings.resolved_eps)
        self.feedforward = FullFeedForward(settings)
        self.dropout = Dropout(settings.dropout)

    def begin(
        self, x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, below: Any
    ) -> Any:
        """Returns the work that this layer shares with the layers above; None unless the mixer shares work."""
        if not isinstance(self.mixer, SharingMixer):
            return None
        return self.mixer.begin(self.mixer_norm(x), key_padding_mask, causal, below)

    def mixed(
        self, x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, shared: Any
    ) -> Float[Tensor, "batch n d"]:
        """Returns the output of the mixer branch, before dropout."""
        h = self.mixer_norm(x)
        if isinstance(self.mixer, SharingMixer):
            return self.mixer.mix_shared(h, shared)
        return self.mixer(h, key_padding_mask, causal)

    def forward(
        self, key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, shared: Any, x: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        h = self.dropout.add(x, self.mixed(x, key_padding_mask, causal, shared))
        return self.dropout.add(h, self.feedforward(self.feedforward_norm(h)))
