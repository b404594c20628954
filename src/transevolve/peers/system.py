"""`System`: a mixer, the layer around it, and its citation."""

from collections.abc import Callable
from dataclasses import dataclass

from .base import Capabilities, Mixer
from .layer import PeerLayer


@dataclass(frozen=True)
class System:
    """A system to compare with. `build` takes a `MixerShape` and the system's settings as keyword arguments.

    `complexity` is that of one mixer for n tokens of width d. `backend` is how the mixer is computed: "sdpa" (PyTorch's
    scaled dot product attention), "eager" (plain products), "once" (one matrix for several layers) or "fft". `layer` is
    another class if the system changes the layer itself.
    """

    name: str
    citation: str
    complexity: str
    backend: str
    capabilities: Capabilities
    build: Callable[..., Mixer]
    layer: type[PeerLayer] = PeerLayer
