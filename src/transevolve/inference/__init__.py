"""Predictions, translations and scores from a saved run: `load("run")`."""

from .run import Evaluation, LoadedRun, Precision, load

__all__ = ["Evaluation", "LoadedRun", "Precision", "load"]
