"""The ways to compute evolved attention. A new one is a file with a `begin`, and a line here."""

from . import literal
from .base import Begin, Evolution, Settings

BACKENDS: dict[str, Begin] = {
    "literal": literal.begin,
}

__all__ = ["BACKENDS", "Begin", "Evolution", "Settings"]
