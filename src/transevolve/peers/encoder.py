"""The skeleton all systems share: `EvolvedEncoder`'s, with a mixer of its own at every layer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..evolution.block import Trace
from ..evolution.dropout import Dropout
from ..evolution.feedforward import FullFeedForward
from . import build_mixer
from .base import Mixer, MixerShape


class PeerLayer(nn.Module):
    """h = x + Mixer(LayerNorm(x)); x' = h + FF(LayerNorm(h)); dropout on both branches."""

    def __init__(self, mixer: Mixer, intermediate_size: int, dropout: float, layer_norm_eps: float):
        super().__init__()
        hidden_size = mixer.shape.hidden_size
        self.mixer_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.mixer = mixer
        self.feedforward_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.feedforward = FullFeedForward(hidden_size, intermediate_size)
        self.dropout = Dropout(dropout)

    def forward(
        self, key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool, x: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        h = x + self.dropout(self.mixer(self.mixer_norm(x), key_padding_mask, causal))
        return h + self.dropout(self.feedforward(self.feedforward_norm(h)))


class PeerEncoder(nn.Module):
    """`num_layers` layers of one system and a final layer norm, on (batch, n, d).

        encoder = PeerEncoder("transformer", 256, 8)
        y = encoder(x, key_padding_mask=None, causal=False)

    Each layer is recomputed in backward if `gradient_checkpointing` is set.
    """

    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable[..., Tensor] = partial(checkpoint, use_reentrant=False)

    def __init__(
        self,
        system: str,
        hidden_size: int,
        num_heads: int,
        num_layers: int = 6,
        intermediate_size: int | None = None,
        *,
        max_length: int = 512,
        dropout: float = 0.0,
        layer_norm_eps: float = 1e-5,
        settings: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self.system = system
        wide = intermediate_size or 4 * hidden_size
        shapes = [MixerShape(hidden_size, num_heads, max_length, layer) for layer in range(num_layers)]
        mixers = [build_mixer(system, shape, settings) for shape in shapes]
        self.layers = nn.ModuleList(PeerLayer(mixer, wide, dropout, layer_norm_eps) for mixer in mixers)
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Float[Tensor, "batch n d"]:
        for layer in self.layers:
            if trace is not None:
                trace.enter(x)
            step = partial(layer, key_padding_mask, causal)
            recompute = self.gradient_checkpointing and self.training
            x = self._gradient_checkpointing_func(step, x) if recompute else step(x)
        return self.norm(x)
