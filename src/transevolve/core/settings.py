"""A setting is declared once: a dataclass field with its type, default, help text and range."""

from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Numbers from `least` to `most`; `above` and `below` make a bound exclusive."""

    least: float = -inf
    most: float = inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        low = value > self.least if self.above else value >= self.least
        return low and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        return f"{'(' if self.above else '['}{self.least:g}, {self.most:g}{')' if self.below else ']'}"

    def check(self, value: float) -> None:
        """Raises ValueError if the number is outside the range."""
        if value in self:
            return
        if value < self.least and not self.above:
            raise ValueError(f"must be at least {self.least}, got {value}")
        if value > self.most and not self.below:
            raise ValueError(f"must be at most {self.most}, got {value}")
        raise ValueError(f"must be in {self}, got {value}")


def setting(default: T, help: str, within: Range | None = None) -> T:
    """Declares a field of a settings dataclass; its help text and range are in the field's metadata."""
    return field(default=default, metadata={"help": help, "range": within})


def check_ranges(settings: Any) -> None:
    """Raises ValueError for the first field that is outside its range."""
    for declared in fields(settings):
        within, value = declared.metadata.get("range"), getattr(settings, declared.name)
        if within is None or value is None:
            continue
        try:
            within.check(value)
        except ValueError as error:
            raise ValueError(f"{declared.name} {error}") from None
