"""The base class of masked and causal language models."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor
from transformers import PreTrainedConfig

from ..config.learning import PLAIN, small_range
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import DataOptions, TextData
from ..data.batching import IGNORED, Collator, RowStore
from ..data.options import changed
from ..models.loss import smoothed_cross_entropy
from ..models.settings import size_settings
from .bag_settings import require_no_bag
from .base import Kind, Score
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset

READING = ("task", "text", "max_length")


@dataclass(frozen=True)
class TokenScore(Score):
    """Loss and accuracy per predicted token; the perplexity is the exponential of the loss."""

    tokens: int

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "tokens": self.tokens}


class LanguageKind(Kind):
    metrics: ClassVar[Mapping[str, bool]] = {"loss": False, "perplexity": False, "accuracy": True}
    defaults: ClassVar[Mapping[str, Any]] = {"training.beta2": 0.999, "training.eps": 1e-8}
    evaluation_options = frozenset({"file", "text"})

    def fits(self, config: PreTrainedConfig) -> bool:
        return any(name.endswith(self.head) for name in config.architectures or ())

    def evaluation_data(self, trained: DataOptions, files: Mapping[str, str | None]) -> tuple[str, DataOptions] | None:
        file, text = files.get("file"), files.get("text")
        if file is None:
            if text is not None:
                raise UserError("--text names a column of --file: add --file")
            return None
        kept = {name: getattr(trained, name) for name in changed(trained) & {*READING}}
        return Path(file).name, replace(DataOptions(**kept), test=file, **({} if text is None else {"text": text}))

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """Initialize matrices with small values, so that attention is uniform at first."""
        model = recipe.model
        require_no_bag(recipe, self.noun)
        start = model.initialization or "small"
        width = model.hidden_size or size_settings(model.size or "small")["hidden_size"]
        small = {"model.initializer_range": small_range(width)} if start == "small" else {}
        return {**PLAIN, "model.initialization": start, **small}

    @abstractmethod
    def scoring_collator(self, session: Session) -> Collator:
        """The collator for scoring, independent of epoch and seed."""

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
