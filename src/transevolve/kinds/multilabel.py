"""Multi-label classification. The threshold of each label is chosen on validation and saved with the model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import PreTrainedConfig, PreTrainedModel

from ..config.recipe import Recipe
from ..data import TextData
from ..data.batching import IGNORED, Collator
from ..data.labelsets import LabelSets
from ..data.registry import Task
from ..data.sources import MULTILABEL
from ..data.text import USES, TextTask
from ..data.views import column_array
from ..metrics.multilabel import LabelSetScores, best_thresholds, label_set_scores
from .base import PIPELINE, LossFunction, Prediction, Score, Table, class_rows
from .classification import ONE_FIELD
from .encoder import EncoderKind
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset

EXAMPLE = """classify = pipeline("text-classification", model={name})
thresholds = dict(zip(classify.model.config.id2label.values(), classify.model.config.thresholds))
[found["label"] for found in classify("a text", top_k=None) if found["score"] >= thresholds[found["label"]]]"""


@dataclass(frozen=True)
class LabelSetScore(Score):
    found: LabelSetScores

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "labels": [asdict(score) for score in self.found.labels]}

    def tables(self) -> list[Table]:
        title = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items() if name != "loss")
        return [Table(title, ["label", "precision", "recall", "F1", "rows"], class_rows(self.found.labels))]


@dataclass(frozen=True)
class LabelSetPrediction(Prediction):
    """The probability of each label, and the labels above their thresholds, most probable first."""

    probabilities: dict[str, float]
    labels: list[str]

    def line(self) -> str:
        return "\t".join(f"{label.translate(ONE_FIELD)} {self.probabilities[label]:.4f}" for label in self.labels)

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "labels": self.labels, "probabilities": self.probabilities}


class MultiHotCollator(Collator):
    """Labels are rows of 0 and 1; those of fillers are negative."""

    def labels(self, labels: list[Any]) -> Tensor:
        return torch.tensor(labels, dtype=torch.float32)


class MultiLabel(EncoderKind):
    name = MULTILABEL
    noun = "a multi-label classifier"
    example = PIPELINE + EXAMPLE
    tasks: ClassVar[Mapping[str, Task]] = {
        MULTILABEL: Task(
            "your own texts with any number of labels each",
            USES | {"label_separator"},
            TextTask(targets=LabelSets()).load,
            MULTILABEL,
        )
    }
    metrics: ClassVar[Mapping[str, bool]] = {"micro_f1": True, "macro_f1": True, "exact_match": True, "loss": False}
    refused: ClassVar[Mapping[str, str]] = {
        "model.label_smoothing": "applies to classes that exclude each other",
        "training.refit": "would train on the rows that choose the thresholds",
    }

    chosen_on_validation = ("thresholds",)
    starts_as_bag = True
    explained = True

    def bag_targets(self, labels: np.ndarray, data: TextData) -> np.ndarray:
        return labels.astype(float)

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """No refit, because the thresholds are chosen on rows that are not used for training."""
        return {**super().decide(recipe, data), "training.refit": False}

    def fits(self, config: PreTrainedConfig) -> bool:
        return config.problem_type == "multi_label_classification" and not config.is_encoder_decoder

    def facts(self, data: TextData) -> dict[str, Any]:
        return {"problem_type": "multi_label_classification"}

    def build(self, recipe: Recipe, data: TextData) -> PreTrainedModel:
        model = super().build(recipe, data)
        model.config.update({"thresholds": [0.5] * len(data.labels)})
        return model

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction:
        """With balanced weights, positive and negative rows of a label have equal total weight."""
        if recipe.training.class_weights is None:
            return binary_cross_entropy
        assert data.train is not None
        shares = column_array(data.train, "labels").mean(0)
        weights = torch.tensor((1 - shares) / np.maximum(shares, 1e-12), dtype=torch.float32)
        return partial(binary_cross_entropy, weights=torch.where(torch.tensor(shares) > 0, weights, 1.0))

    def collator(self, session: Session) -> MultiHotCollator:
        return MultiHotCollator(session.pad)

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        """During training, the rows are those of validation, and thresholds are chosen on them."""
        outputs, labels = self.row_outputs(session, rows)
        if not final:
            session.model.config.update({"thresholds": best_thresholds(outputs, labels).tolist()})
        return self.assess(outputs, labels, session.model.config)

    def sample_labels(self, ids: Tensor, config: PreTrainedConfig) -> dict[str, Any]:
        return {"labels": torch.zeros(len(ids), config.num_labels or 1)}

    def constant_output(self, labels: np.ndarray, outputs: int) -> np.ndarray:
        shares = labels.mean(0).clip(1e-12, 1 - 1e-12)
        return np.log(shares / (1 - shares))

    def baseline_settings(self, labels: np.ndarray) -> dict[str, Any]:
        """The constant prediction with the best F1 is all labels at once."""
        return {"thresholds": [0.0] * labels.shape[1]}

    def assess(self, outputs: np.ndarray, labels: np.ndarray, config: PreTrainedConfig) -> LabelSetScore:
        found = label_set_scores(outputs, labels, self.thresholds(config), self.labels(config))
        metrics = {name: getattr(found, name) for name in ("loss", "micro_f1", "macro_f1", "exact_match")}
        return LabelSetScore(metrics, len(labels), found)

    def thresholds(self, config: PreTrainedConfig) -> np.ndarray:
        return np.asarray(getattr(config, "thresholds", [0.5] * (config.num_labels or 0)))

    def prediction(self, text: str, output: np.ndarray, config: PreTrainedConfig) -> LabelSetPrediction:
        from scipy.special import expit

        names, probabilities = self.labels(config), expit(output)
        above = np.flatnonzero(probabilities >= self.thresholds(config))
        chosen = [names[place] for place in above[np.argsort(-probabilities[above], kind="stable")]]
        return LabelSetPrediction(text, dict(zip(names, probabilities.tolist(), strict=True)), chosen)

    def description(self, config: PreTrainedConfig) -> str:
        return f"gives a text any of {config.num_labels} labels"


def binary_cross_entropy(
    outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None, weights: Tensor | None = None
) -> Tensor:
    """`weights` are the weights of positive labels."""
    real, logits = labels != IGNORED, outputs.logits
    positive = None if weights is None else weights.to(logits)
    losses = binary_cross_entropy_with_logits(logits, labels.to(logits), pos_weight=positive, reduction="none")
    total = torch.where(real, losses, 0.0).sum()
    return total / (real.sum() if num_items_in_batch is None else num_items_in_batch)
