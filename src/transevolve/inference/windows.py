"""A stream in windows: enough at once to sort by length, little enough for constant memory."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def windows(items: Iterable[T], size: int, patience: float = 1.0) -> Iterator[list[T]]:
    """Lists of at most `size` items; a window also ends when items came for longer than `patience` seconds."""
    gathered: list[T] = []
    since = time.monotonic()
    for item in items:
        gathered.append(item)
        if len(gathered) >= size or time.monotonic() - since > patience:
            yield gathered
            gathered, since = [], time.monotonic()
    if gathered:
        yield gathered
