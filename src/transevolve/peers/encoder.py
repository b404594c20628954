"""The encoder of all systems: the skeleton of `EvolvedEncoder`, with one mixer per layer."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..evolution.block import Trace
from ..evolution.checkpointing import Checkpointed
from ..evolution.settings import LayerSettings
from . import build_mixer, find_system
from .base import MixerShape
from .layer import PeerLayer


class PeerEncoder(Checkpointed):
    """`num_layers` layers of one system and a final layer norm, on (batch, n, d).

        encoder = PeerEncoder("transformer", 256, 8)
        y = encoder(x, key_padding_mask=None, causal=False)

    `settings` are specific to the system; further keyword arguments are fields of `LayerSettings`, with a dropout of 0
    by default. With `gradient_checkpointing`, each layer is recomputed in backward, but not the work that layers share.
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
        settings: Mapping[str, Any] | None = None,
        **layer: Any,
    ):
        super().__init__()
        wide = intermediate_size or 4 * hidden_size
        shape = {"hidden_size": hidden_size, "num_attention_heads": num_heads, "intermediate_size": wide}
        self._build(system, LayerSettings(**{"dropout": 0.0, **shape, **layer}), num_layers, max_length, settings)

    @classmethod
    def from_settings(
        cls,
        system: str,
        layer: LayerSettings,
        num_layers: int,
        max_length: int,
        settings: Mapping[str, Any] | None,
    ) -> "PeerEncoder":
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._build(system, layer, num_layers, max_length, settings)
        return encoder

    def _build(self, system, layer, num_layers, max_length, settings) -> None:
        layer.resolve()
        self.system = system
        width, heads = layer.hidden_size, layer.num_attention_heads
        shapes = [MixerShape(width, heads, max_length, number) for number in range(num_layers)]
        mixers = [build_mixer(system, shape, settings) for shape in shapes]
        self.layers = nn.ModuleList(find_system(system).layer(mixer, layer) for mixer in mixers)
        self.norm = nn.LayerNorm(width, eps=layer.resolved_eps)

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
