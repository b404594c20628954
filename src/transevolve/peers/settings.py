"""The settings of a system: keyword arguments of its builder, checked by their annotations."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from ..core.errors import nearest

Count = Annotated[int, 1]
Seed = Annotated[int, 0]


def known_settings(build: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a builder after the shape."""
    return dict(list(inspect.signature(build).parameters.items())[1:])


def check_settings(system: str, build: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raises ValueError for an unknown name, or a value that does not match the annotation."""
    known = known_settings(build)
    for name, value in settings.items():
        if name not in known:
            hint = nearest(name, known) or f"; available: {', '.join(known) or 'none'}"
            raise ValueError(f"system {system!r} has no setting {name!r}{hint}")
        if expected := _mismatch(known[name].annotation, value):
            raise ValueError(f"system {system!r}: {name} must be {expected}, got {value!r}")


def _mismatch(annotation: Any, value: Any) -> str | None:
    """Returns what the annotation expects, or None if the value matches it."""
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return None if value in choices else "one of " + ", ".join(map(str, choices))
    kind, least = get_args(annotation)
    matches = isinstance(value, kind) and not isinstance(value, bool) and value >= least
    return None if matches else f"an integer of at least {least}"
