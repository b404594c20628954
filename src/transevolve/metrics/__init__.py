"""How good translations are, in numbers that others can reproduce."""

from .bleu import Comparison, Difference, TranslationScore, compare, score

__all__ = ["Comparison", "Difference", "TranslationScore", "compare", "score"]
