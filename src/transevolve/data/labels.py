"""Class names: one spelling per class, independent of the type in the file, and a fixed order."""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"([+-]?\d+)\.0*")
MANY = 20
EXPONENT = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d{1,2}")


def canonical(value: Any) -> str | None:
    """The class name of a value in a file; None if the label is missing.

    A whole number has one spelling: 1, 1.0, "1" and " 1.0" are "1"; 0 and -0.0 are "0"; 1e16, "1e16" and "1E+16" are
    "10000000000000000". Exponents are written out. Other text is unchanged: "3.10" is not "3.1", and
    "007" is not "7". Raises TypeError for values that cannot be a class name, such as lists.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, str | bool | int | float):
        raise TypeError(type(value).__name__)
    name = str(value).strip()
    if EXPONENT.fullmatch(name):
        name = f"{Decimal(name):f}"
        name = name.rstrip("0").removesuffix(".") if "." in name else name
    whole = WHOLE.fullmatch(name)
    name = whole[1] if whole else name
    return "0" if name == "-0" else name or None


def sorted_names(names: Iterable[str]) -> list[str]:
    """Numbers by value if all are numbers, otherwise alphabetically."""
    names = set(names)
    if all(NUMBER.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names)


def numeric_hint(names: Sequence[str]) -> str:
    """A hint to use regression if there are many classes and all are numbers; otherwise an empty string."""
    if len(names) <= MANY or not all(NUMBER.fullmatch(name) for name in names):
        return ""
    return f"the {len(names):,} labels are all numbers; to predict numbers, add --data.task regression"
