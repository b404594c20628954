"""The other systems of the paper, in one skeleton. A new one is a file with its mixer and record, and a line here."""

import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import nearest, suggestion
from . import transformer
from .base import Capabilities, Mixer, MixerShape, System

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        transformer.TRANSFORMER,
        transformer.TRANSFORMER_EAGER,
    )
}


def find_system(name: str) -> System:
    if name not in SYSTEMS:
        raise ValueError(f"unknown system {name!r}" + suggestion(name, SYSTEMS))
    return SYSTEMS[name]


def known_settings(name: str) -> list[str]:
    """What a system can be told: the keywords of its builder, after the shape."""
    return list(inspect.signature(find_system(name).build).parameters)[1:]


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    known = known_settings(name)
    for setting in settings:
        if setting not in known:
            instead = nearest(setting, known) or f"; it has {', '.join(known) or 'none'}"
            raise ValueError(f"system {name!r} has no setting {setting!r}" + instead)


def build_mixer(name: str, shape: MixerShape, settings: Mapping[str, Any] | None = None) -> Mixer:
    """The mixer of a system by its name, with the settings that only this system knows."""
    settings = settings or {}
    check_settings(name, settings)
    return find_system(name).build(shape, **settings)


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
]
