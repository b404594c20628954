"""Class names: one spelling for each class, whatever type a file gives it, and a fixed order."""

import math
import re
from collections.abc import Iterable
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"([+-]?\d+)\.0*")


def canonical(value: Any) -> str | None:
    """The class name of a value in a file: 1, 1.0, "1" and " 1.0" are all "1". None where there is no label.

    Raises TypeError for what cannot name a class, such as a list.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, str | bool | int | float):
        raise TypeError(type(value).__name__)
    name = str(value).strip()
    whole = WHOLE.fullmatch(name)
    return (whole[1] if whole else name) or None


def in_order(names: Iterable[str]) -> list[str]:
    """Numbers by their value, anything else alphabetically."""
    names = set(names)
    if all(NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names)
