"""The settings of a system: keywords of its builder, whose annotations say what they may be."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from ..core.errors import nearest

Count = Annotated[int, 1]
Seed = Annotated[int, 0]


def known_settings(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keywords of a builder, after the shape."""
    return dict(list(inspect.signature(build).parameters.items())[1:])


def check_settings(system: str, build: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Every name known, every value of its kind: a whole number not too small, or one of a few words."""
    known = known_settings(build)
    for name, value in settings.items():
        if name not in known:
            instead = nearest(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise ValueError(f"system {system!r} has no setting {name!r}" + instead)
        wanted = _wanted(known[name].annotation, value)
        if wanted:
            raise ValueError(f"system {system!r}: {name} must be {wanted}, got {value!r}")


def _wanted(annotation: Any, value: Any) -> str | None:
    """What the annotation asks for, if the value is something else."""
    if get_origin(annotation) is Literal:
        words = get_args(annotation)
        return None if value in words else "one of " + ", ".join(map(str, words))
    kind, least = get_args(annotation)
    fits = isinstance(value, kind) and not isinstance(value, bool) and value >= least
    return None if fits else f"a whole number of at least {least}"
