"""One file per kind of task: defaults, data, model, loss, scores, predictions, card."""

from .base import Kind, Prediction, Score, Table
from .encoder import EncoderKind
from .registry import KINDS, kind_of, register, resolve
from .session import Session

__all__ = [
    "KINDS",
    "EncoderKind",
    "Kind",
    "Prediction",
    "Score",
    "Session",
    "Table",
    "kind_of",
    "register",
    "resolve",
]
