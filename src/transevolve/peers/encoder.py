"""The skeleton all systems share: that of `EvolvedEncoder`, with one mixer per layer."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..evolution.block import Trace
from ..evolution.checkpointing import Checkpointed
from . import build_mixer, find_system
from .base import MixerShape
from .layer import PeerLayer


class PeerEncoder(Checkpointed):
    """`num_layers` layers of one system and a final layer norm, on (batch, n, d).

        encoder = PeerEncoder("transformer", 256, 8)
        y = encoder(x, key_padding_mask=None, causal=False)

    Each layer is recomputed in backward if `gradient_checkpointing` is set; what layers share is not.
    """

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
        build_layer = find_system(system).layer
        self.layers = nn.ModuleList(build_layer(mixer, wide, dropout, layer_norm_eps) for mixer in mixers)
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
        trace: Trace | None = None,
    ) -> Float[Tensor, "batch n d"]:
        shared = None
        for layer in cast(Iterable[PeerLayer], self.layers):
            if trace is not None:
                trace.enter(x)
            shared = layer.begin(x, key_padding_mask, causal, shared)
            x = self.run(partial(layer, key_padding_mask, causal, shared), x)
        return self.norm(x)
