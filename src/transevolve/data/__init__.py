"""Reads, splits and tokenizes data for training."""

from importlib import import_module
from typing import TYPE_CHECKING

from .options import DataOptions

if TYPE_CHECKING:
    from .data import DataReport, PairFacts, SplitFacts, TextData
    from .registry import TASKS, load_data, task_of
    from .stream import iter_texts

__all__ = [
    "TASKS",
    "DataOptions",
    "DataReport",
    "PairFacts",
    "SplitFacts",
    "TextData",
    "iter_texts",
    "load_data",
    "task_of",
]


def __getattr__(name: str):
    """Import on first use, so that reading the settings does not import transformers."""
    for module in ("data", "registry", "stream"):
        if name in __all__ and hasattr(found := import_module(f".{module}", __name__), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
