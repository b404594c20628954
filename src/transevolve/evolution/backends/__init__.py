"""The ways to compute evolved attention. A new one is a file with a `begin`, and a line here."""

from . import auto, fused, linear, literal, once
from .backend import Begin, Evolution, Settings

BACKENDS: dict[str, Begin] = {
    "literal": literal.begin,
    "once": once.begin,
    "fused": fused.begin,
    "linear": linear.begin,
    "auto": auto.begin,
}

__all__ = ["BACKENDS", "Begin", "Evolution", "Settings"]
