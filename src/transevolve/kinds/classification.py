"""Text classification."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from transformers import PreTrainedConfig

from ..config.recipe import Recipe, TrainingOptions
from ..data import TextData
from ..data.labels import numeric_hint
from ..data.views import column_array
from ..metrics.bag_of_words import BagOfWords, bag_of_words_of
from ..metrics.classification import ClassificationScores, classification_scores
from .base import PIPELINE, LossFunction, Prediction, Score, Table, class_rows
from .encoder import EncoderKind
from .imbalance import balanced_weights, hidden_rare_classes, weighted_cross_entropy

MOST_CLASSES = 20
ONE_FIELD = str.maketrans("\t\r\n", "   ")


@dataclass(frozen=True)
class ClassScores(Score):
    found: ClassificationScores

    def as_dict(self) -> dict[str, Any]:
        classes = [asdict(score) for score in self.found.classes]
        return {**super().as_dict(), "classes": classes, "confusion": self.found.confusion.tolist()}

    def tables(self) -> list[Table]:
        scores = self.found.classes
        tables = [Table(self._title(), ["class", "precision", "recall", "F1", "rows"], class_rows(scores))]
        if len(scores) <= MOST_CLASSES:
            counts = zip(scores, self.found.confusion.tolist(), strict=True)
            cells = [[score.label, *(f"{count:,}" for count in row)] for score, row in counts]
            tables.append(Table("Confusion, true class down", ["", *(score.label for score in scores)], cells))
        return tables

    def write(self, folder: Path, name: str) -> list[Path]:
        from ..runs.plots import write_confusion

        path = folder / f"{name}.confusion.png"
        labels = [score.label for score in self.found.classes]
        write_confusion(path, self.found.confusion, labels, f"{name}: {self._title()}")
        return [path]

    def notes(self, training: TrainingOptions) -> list[str]:
        return hidden_rare_classes(self.found, training)

    def _title(self) -> str:
        return f"accuracy {self.found.accuracy:.4f}"


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """The probability of each class."""

    probabilities: dict[str, float]

    @property
    def label(self) -> str:
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def probability(self) -> float:
        return self.probabilities[self.label]

    def line(self) -> str:
        return f"{self.label.translate(ONE_FIELD)}\t{self.probability:.4f}"

    def row(self) -> dict[str, Any]:
        return {"text": self.text, "label": self.label, "probability": self.probability}

    def as_dict(self) -> dict[str, Any]:
        found = {"text": self.text, "label": self.label, "probability": self.probability}
        return {**found, "probabilities": self.probabilities}


class Classification(EncoderKind):
    name = "classification"
    noun = "a classifier"
    example = PIPELINE + 'classify = pipeline("text-classification", model={name})\nclassify("a text")'
    metrics: ClassVar[Mapping[str, bool]] = {"accuracy": True, "loss": False, "macro_f1": True}

    starts_as_bag = True
    explained = True

    def bag_targets(self, labels: np.ndarray, data: TextData) -> np.ndarray:
        return np.eye(len(data.labels))[labels]

    def yardstick(self, recipe: Recipe, data: TextData, refit: bool) -> BagOfWords | None:
        return bag_of_words_of(data, recipe.training.seed, refit)

    def fits(self, config: PreTrainedConfig) -> bool:
        return not config.is_encoder_decoder and config.problem_type in (None, "single_label_classification")

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction | None:
        if recipe.training.class_weights is None:
            return None
        assert data.train is not None
        weights = balanced_weights(column_array(data.train, "labels"), len(data.labels))
        smoothing = recipe.model.label_smoothing or 0.0
        return partial(weighted_cross_entropy, weights=weights, smoothing=smoothing)

    def notes(self, recipe: Recipe, data: TextData) -> list[str]:
        hint = numeric_hint(data.labels)
        return [*super().notes(recipe, data), *([f"note: {hint}"] if hint else [])]

    def constant_output(self, labels: np.ndarray, outputs: int) -> np.ndarray:
        """The log frequencies of the classes."""
        return np.log(np.maximum(np.bincount(labels, minlength=outputs) / len(labels), 1e-12))

    def assess(self, outputs: np.ndarray, labels: np.ndarray, config: PreTrainedConfig) -> ClassScores:
        found = classification_scores(outputs, labels, self.labels(config))
        metrics = {"loss": found.loss, "accuracy": found.accuracy, "macro_f1": found.macro_f1}
        return ClassScores(metrics, len(labels), found)

    def prediction(self, text: str, output: np.ndarray, config: PreTrainedConfig) -> ClassPrediction:
        shares = np.exp(output - output.max())
        shares = (shares / shares.sum()).tolist()
        return ClassPrediction(text, dict(zip(self.labels(config), shares, strict=True)))

    def description(self, config: PreTrainedConfig) -> str:
        return f"sorts texts into {config.num_labels} classes"
