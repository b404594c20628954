"""Regression. The model learns standardized labels; scores, predictions and exports are in the scale of the labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss
from transformers import PreTrainedConfig, PreTrainedModel

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.figures import new_figure, plain, save
from ..data import TextData
from ..data.batching import IGNORED, Collator, RowStore
from ..data.registry import Task
from ..data.rows import Rows
from ..data.text import USES, TextTask
from ..data.views import column_views
from ..metrics.ridge_of_words import RidgeOfWords, ridge_of_words
from ..models.pooling import PoolingHead
from .base import LossFunction, Prediction, Score
from .encoder import EncoderKind
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset

CALIBRATION_ROWS = 1_000
LEAST_CALIBRATED = 10
UNCALIBRATED = [1.0, 0.0]
SNIPPET = """import transevolve  # registers the model
from transformers import pipeline

predict = pipeline("text-classification", model={name})
predict("a text")[0]["score"] * {scale!r} + {mean!r}"""


class Numbers:
    """A number per row; splits are cut and sampled at random."""

    def learn(self, rows: Rows, column: str) -> list[str]:
        if len(set(rows.labels)) == 1:
            raise UserError(
                f"{rows.file}: all {len(rows.labels):,} rows have the same label {rows.labels[0]!r};"
                f" there is nothing to learn (is {column!r} the label column?)"
            )
        return [column]

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        return np.array([_number(label, rows, place) for place, label in enumerate(rows.labels)], dtype=np.float64)

    def strata(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(len(values), dtype=np.int64)

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        numbers = {"least": values.min(), "mean": values.mean(), "largest": values.max()}
        return {"numbers": {name: float(value) for name, value in numbers.items()}}


def _number(label: str, rows: Rows, place: int) -> float:
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{rows.where(place)}: the label {label!r} is not a number; correct or remove the row")
    return number


class StandardizedCollator(Collator):
    """Labels less their mean, over their deviation; fillers keep their mark."""

    def __init__(self, pad_token_id: int, mean: float, scale: float):
        super().__init__(pad_token_id)
        self.mean, self.scale = mean, scale

    def labels(self, labels: list[Any]) -> Tensor:
        # A filler is an int, which no label read from a file is.
        numbers = [float(IGNORED) if isinstance(y, int) else (y - self.mean) / self.scale for y in labels]
        return torch.tensor(numbers, dtype=torch.float32)


@dataclass(frozen=True)
class NumberScore(Score):
    predicted: np.ndarray
    truth: np.ndarray

    def write(self, folder: Path, name: str) -> list[Path]:
        path = folder / f"{name}.scatter.png"
        figure = new_figure(5, 5)
        axis = figure.subplots()
        axis.scatter(self.truth, self.predicted, s=8, alpha=0.5)
        axis.axline((float(self.truth.mean()),) * 2, slope=1, color="grey", linewidth=1)
        axis.set(xlabel="label", ylabel="predicted", title=plain(f"{name}: R² {self.metrics['r2']:.4f}"))
        save(figure, path)
        return [path]


@dataclass(frozen=True)
class NumberPrediction(Prediction):
    value: float

    def line(self) -> str:
        return f"{self.value:.6g}"

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "value": self.value}


class Regression(EncoderKind):
    name = "regression"
    noun = "a regression model"
    tasks: ClassVar[Mapping[str, Task]] = {
        "regression": Task(
            "your own texts and numbers: csv, tsv, jsonl or parquet",
            USES,
            TextTask(targets=Numbers()).load,
            "regression",
        )
    }
    metrics: ClassVar[Mapping[str, bool]] = {
        "mse": False,
        "mae": False,
        "r2": True,
        "pearson": True,
        "spearman": True,
        "loss": False,
    }
    refused: ClassVar[Mapping[str, str]] = {
        "model.label_smoothing": "applies to classes, which regression does not have",
        "training.class_weights": "applies to classes, which regression does not have",
    }
    graph_output = "value"
    chosen_on_validation = ("calibration",)
    starts_as_bag = True

    def bag_targets(self, labels: np.ndarray, data: TextData) -> np.ndarray:
        return labels

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:
        """The initial outputs of a bag of words are ordered like the labels; their scale is fitted here."""
        super().start(model, recipe, data)
        if recipe.model.initialization == "bag":
            from ..data.token_values import held_out

            assert data.train is not None
            session = Session(model, data.tokenizer, recipe, model.device, recipe.training.eval_tokens)
            rows = data.train.select((held_out(len(data.train)) or range(len(data.train)))[:CALIBRATION_ROWS])
            calibrate(model, self.outputs(session, RowStore(rows))[:, 0], column_views(rows, "labels").array())

    def yardstick(self, recipe: Recipe, data: TextData, refit: bool) -> RidgeOfWords | None:
        return ridge_of_words(data, recipe.training.seed, refit)

    def fits(self, config: PreTrainedConfig) -> bool:
        return config.problem_type == "regression" and hasattr(config, "label_scale")

    def facts(self, data: TextData) -> dict[str, Any]:
        return {"problem_type": "regression"}

    def build(self, recipe: Recipe, data: TextData) -> PreTrainedModel:
        assert data.train is not None
        labels = column_views(data.train, "labels").array()
        model = super().build(recipe, data)
        scale = float(labels.std()) or 1.0
        model.config.update({"label_mean": float(labels.mean()), "label_scale": scale, "calibration": UNCALIBRATED})
        return model

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction:
        return squared_error

    def collator(self, session: Session) -> StandardizedCollator:
        config = session.model.config
        return StandardizedCollator(session.pad, config.label_mean, config.label_scale)

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        """During training, the rows are those of validation, and outputs are calibrated on them."""
        config = session.model.config
        if final:
            return super().score(session, rows)
        config.update({"calibration": UNCALIBRATED})
        outputs, labels = self.row_outputs(session, rows)
        slope, shift = best_line(outputs[:, 0], labels)
        config.update({"calibration": [slope, shift]})
        return self.assess(slope * outputs + shift, labels, config)

    def graph(self, logits: Tensor, config: PreTrainedConfig) -> Tensor:
        scale, mean = output_scale(config)
        return logits * scale + mean

    def constant_output(self, labels: np.ndarray, outputs: int) -> np.ndarray:
        return labels.mean(keepdims=True)

    def baseline_settings(self, labels: np.ndarray) -> dict[str, Any]:
        return {"label_scale": float(labels.std()) or 1.0}

    def assess(self, outputs: np.ndarray, labels: np.ndarray, config: PreTrainedConfig) -> NumberScore:
        from scipy.stats import pearsonr, spearmanr
        from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

        predicted = outputs[:, 0]
        mse = float(mean_squared_error(labels, predicted))
        related = len(labels) > 1 and np.ptp(predicted) > 0 and np.ptp(labels) > 0

        def correlation(measure: Any) -> float:
            return float(measure(labels, predicted).statistic) if related else 0.0

        metrics = {
            "loss": mse / config.label_scale**2,
            "mse": mse,
            "mae": float(mean_absolute_error(labels, predicted)),
            "r2": float(r2_score(labels, predicted)) if len(labels) > 1 else 0.0,
            "pearson": correlation(pearsonr),
            "spearman": correlation(spearmanr),
        }
        return NumberScore(metrics, len(labels), predicted, labels)

    def prediction(self, text: str, output: np.ndarray, config: PreTrainedConfig) -> NumberPrediction:
        return NumberPrediction(text, float(output[0]))

    def description(self, config: PreTrainedConfig) -> str:
        return "predicts a number from a text"

    def snippet(self, name: str, config: PreTrainedConfig) -> str:
        scale, mean = output_scale(config)
        return SNIPPET.format(name=name, scale=scale, mean=mean)


def output_scale(config: PreTrainedConfig) -> tuple[float, float]:
    """Factor and summand that turn the model's outputs into labels; older models are not calibrated."""
    slope, shift = getattr(config, "calibration", UNCALIBRATED)
    return slope * config.label_scale, slope * config.label_mean + shift


def best_line(outputs: np.ndarray, labels: np.ndarray) -> list[float]:
    """Slope and intercept of least squares; 1 and 0 if these have the lower leave-one-out error, or order is lost."""
    deviations, rows = outputs - outputs.mean(), len(outputs)
    squares = float(deviations @ deviations)
    if rows < LEAST_CALIBRATED or squares == 0:
        return UNCALIBRATED
    slope = float(deviations @ labels) / squares
    shift = float(labels.mean() - slope * outputs.mean())
    leverage = 1 / rows + deviations**2 / squares
    left_out = (labels - slope * outputs - shift) / (1 - leverage).clip(min=np.finfo(float).eps)
    better = np.mean(left_out**2) < np.mean((labels - outputs) ** 2)
    return [slope, shift] if slope > 0 and better else UNCALIBRATED


@torch.no_grad()
def calibrate(model: PreTrainedModel, outputs: np.ndarray, labels: np.ndarray) -> None:
    """Scales and shifts the head so that its outputs fit the labels best."""
    head, config = model.head, model.config
    assert isinstance(head, PoolingHead)
    spread = outputs.std()
    slope = float(np.mean((outputs - outputs.mean()) * (labels - labels.mean())) / spread**2) if spread > 0 else 0.0
    if slope > 0:
        head.classifier.weight.mul_(slope)
        shift = labels.mean() - slope * (outputs.mean() - config.label_mean) - config.label_mean
        head.classifier.bias.copy_(slope * head.classifier.bias + shift / config.label_scale)


def squared_error(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    real = labels != IGNORED
    total = mse_loss(outputs.logits[:, 0][real], labels[real], reduction="sum")
    return total / (real.sum() if num_items_in_batch is None else num_items_in_batch)
