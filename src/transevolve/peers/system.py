"""What a system is: a mixer, the layer around it, and a record that says where it comes from."""

from collections.abc import Callable
from dataclasses import dataclass

from .base import Capabilities, Mixer
from .layer import PeerLayer


@dataclass(frozen=True)
class System:
    """A system to compare with. `build` takes a `MixerShape` and the system's own settings as keywords.

    `complexity` is that of one layer's mixing, in n tokens of width d; `backend` is how this implementation computes
    it: "sdpa" (PyTorch's scaled dot product attention), "eager" (plain products), "once" (one matrix for several
    layers) or "fft". `layer` is the skeleton's own unless the system is about the layer.
    """

    name: str
    citation: str
    complexity: str
    backend: str
    capabilities: Capabilities
    build: Callable[..., Mixer]
    layer: type[PeerLayer] = PeerLayer
