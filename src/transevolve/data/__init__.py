"""From a description of data to tokenised splits that a trainer can use as they are."""

from .data import DataReport, PairFacts, SplitFacts, TextData
from .options import DataOptions
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
