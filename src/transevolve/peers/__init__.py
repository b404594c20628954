"""The paper's other systems, and more, in the same encoder. To add a system, write a file with its mixer and `System`,
and list it here."""

from collections.abc import Mapping
from typing import Any

from ..core.errors import suggestion
from . import (
    bigbird,
    fnet,
    lazyformer,
    linear_attention,
    linformer,
    macaron,
    nystromformer,
    performer,
    reformer,
    rfa,
    settings,
    sinkhorn,
    sparse,
    synthesizer,
    transformer,
)
from .base import Capabilities, Mixer, MixerShape
from .system import System

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        transformer.TRANSFORMER,
        transformer.TRANSFORMER_EAGER,
        linformer.LINFORMER,
        reformer.REFORMER,
        sinkhorn.SINKHORN,
        sparse.SPARSE_TRANSFORMER,
        synthesizer.DENSE,
        synthesizer.RANDOM,
        bigbird.BIGBIRD,
        linear_attention.LINEAR_ATTENTION,
        performer.PERFORMER,
        rfa.RFA,
        lazyformer.LAZYFORMER,
        fnet.FNET,
        nystromformer.NYSTROMFORMER,
        macaron.MACARON,
    )
}


def find_system(name: str) -> System:
    if name not in SYSTEMS:
        raise ValueError(f"unknown system {name!r}" + suggestion(name, SYSTEMS))
    return SYSTEMS[name]


def known_settings(name: str) -> list[str]:
    """Returns the names of a system's settings."""
    return list(settings.known_settings(find_system(name).build))


def resolved_settings(name: str, chosen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns all settings of a system: the chosen values, and defaults for the rest."""
    known = settings.known_settings(find_system(name).build)
    return {setting: parameter.default for setting, parameter in known.items()} | dict(chosen or {})


def check_settings(name: str, chosen: Mapping[str, Any]) -> None:
    settings.check_settings(name, find_system(name).build, chosen)


def build_mixer(name: str, shape: MixerShape, chosen: Mapping[str, Any] | None = None) -> Mixer:
    """Builds the mixer of a system; `chosen` are the settings of that system."""
    chosen = chosen or {}
    check_settings(name, chosen)
    return find_system(name).build(shape, **chosen)


__all__ = [
    "SYSTEMS",
    "Capabilities",
    "Mixer",
    "MixerShape",
    "System",
    "build_mixer",
    "check_settings",
    "find_system",
    "known_settings",
    "resolved_settings",
]
