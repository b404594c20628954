"""The base class of masked and causal language models."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from ..config.recipe import Recipe
from ..data import TextData
from ..data.batching import IGNORED, Collator, RowStore
from ..models.loss import smoothed_cross_entropy
from .bag_settings import decided_without_bag
from .base import Kind, Score
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TokenScore(Score):
    """Loss and accuracy per predicted token; the perplexity is the exponential of the loss."""

    tokens: int

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "tokens": self.tokens}


class LanguageKind(Kind):
    metrics: ClassVar[Mapping[str, bool]] = {"loss": False, "perplexity": False, "accuracy": True}

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """Initialize matrices with small values, so that attention is uniform at first."""
        return decided_without_bag(recipe, self.noun, "small")

    def scoring_collator(self, session: Session) -> Collator:
        """The collator for scoring, independent of epoch and seed."""
        return self.collator(session)

    @abstractmethod
    def predicted(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The logits and labels of the predicted tokens."""

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> TokenScore:
        session = session.with_logits(self.predicted_share(session))
        sums, collate = np.zeros(3), self.scoring_collator(session)
        with session.inference():
            for _, batch in session.batches(RowStore(rows), collate):
                labels = batch["labels"]
                logits, labels = self.predicted(session.model(**batch).logits.float(), labels)
                real = int((labels != IGNORED).sum())
                if real:
                    right = int(((logits.argmax(-1) == labels) & (labels != IGNORED)).sum())
                    sums += [float(smoothed_cross_entropy(logits, labels, 0.0, 1)), right, real]
        loss, right, tokens = np.sum(session.gather(sums), axis=0)
        mean = loss / max(tokens, 1)
        metrics = {"loss": mean, "perplexity": math.exp(min(mean, 700)), "accuracy": right / max(tokens, 1)}
        return TokenScore({name: float(value) for name, value in metrics.items()}, len(rows), int(tokens))

    def predicted_share(self, session: Session) -> float:
        """The share of tokens that have logits."""
        return 1.0
