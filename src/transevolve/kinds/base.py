"""The base classes of kinds of task, for training, evaluation, prediction and export.

To add a kind, write a file with a subclass of `Kind` (or of `EncoderKind`, if the model has one output row per text)
and add a line to `registry.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from ..config.learning import PLAIN
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import DataOptions, TextData
from ..data.batching import Collator
from ..data.registry import Task
from .session import Session
from .systems import build_model, check_model

if TYPE_CHECKING:
    from datasets import Dataset

LossFunction = Callable[..., Tensor]
Where = Callable[[int], str]


class Table(NamedTuple):
    title: str
    columns: list[str]
    cells: list[list[str]]


@dataclass(frozen=True)
class Score:
    """The score of a model on some rows."""

    metrics: dict[str, float]
    rows: int

    def as_dict(self) -> dict[str, Any]:
        """The content of `evaluate --json` and NAME.evaluation.json."""
        return {"count": self.rows, **self.metrics}

    def tables(self) -> list[Table]:
        """The tables that `evaluate` prints; the name of the rows is added to the first title."""
        cells = [[name, f"{value:.4f}"] for name, value in self.metrics.items()]
        return [Table(f"{self.rows:,} rows", ["metric", "value"], cells)]

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write additional files, such as plots; returns their paths."""
        return []

    def notes(self) -> list[str]:
        """Warnings about the score."""
        return []

    def compare(self, other: "Score", names: tuple[str, str]) -> tuple[dict[str, Any], Table]:
        """A test of whether two models differ on the same rows."""
        raise UserError(f"{names[0]} cannot be compared with {names[1]}: --against is for translation")


class Yardstick(Protocol):
    """A simple method, scored on the same rows."""

    def as_dict(self) -> dict[str, Any]: ...

    def lines(self, validation: Mapping[str, float], test: Mapping[str, float] | None) -> list[str]:
        """The scores as text, and advice if they are better than these scores of the model."""
        ...


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text."""

    text: str

    def line(self) -> str:
        """The prediction as `predict` prints it."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """The prediction as `predict --json` prints it."""
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """The prediction as a table row."""
        return self.as_dict()


class Kind(ABC):
    """A kind of task.

    Attributes:
        name: The value of `Task.kind`.
        noun: The name of its models in messages, such as "a classifier".
        command: The command that predicts with its models.
        tasks: Tasks of this kind in addition to those of `transevolve.data`; the values of `data.task`.
        defaults: Default values of a recipe's dotted keys.
        refused: Dotted keys that must not be set, each with the reason.
        metrics: The name of each metric, and whether higher is better. The first selects the model by default.
        patience: Validations without improvement after which training stops, by default; 0 disables it.
        scored_alike: Whether validation during training is scored exactly like the selected model.
        evaluation_options: Options of `evaluate` that this kind supports, among those that only some kinds support.
        explained: Whether `explain` can show how its models process a text.
        head: The model's head, as in `transevolve.models.heads` without its prefix.
        auto_class: Hugging Face's Auto class for its models.
        pipeline_tag: Hugging Face's name of the task.
        graph_output: The output name of an exported graph (ONNX, torch.export); None if export is not supported.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    command: ClassVar[str] = "predict"
    tasks: ClassVar[Mapping[str, Task]] = {}
    defaults: ClassVar[Mapping[str, Any]] = {}
    refused: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[Mapping[str, bool]]
    patience: ClassVar[int] = 0
    scored_alike: ClassVar[bool] = True
    evaluation_options: ClassVar[frozenset[str]] = frozenset()
    explained: ClassVar[bool] = False
    head: ClassVar[str]
    auto_class: ClassVar[Any]
    pipeline_tag: ClassVar[str]
    graph_output: ClassVar[str | None] = None

    @abstractmethod
    def fits(self, config: PreTrainedConfig) -> bool:
        """Whether a saved model can be of this kind."""

    def labels(self, config: PreTrainedConfig) -> list[str] | None:
        """The names of a saved model's outputs."""
        return None

    @abstractmethod
    def evaluation_data(self, trained: DataOptions, files: Mapping[str, Any]) -> tuple[str, DataOptions] | None:
        """A name, and options that read the files as the split `test`; None if no file is given.

        `files` contains all options of `evaluate` for files and columns.
        """

    def check(self, recipe: Recipe, data: TextData | None = None) -> None:
        """Raise an error for invalid settings; called before the data are loaded, and again afterwards."""
        if data is None:
            check_model(self.head, recipe.model)

    def notes(self, recipe: Recipe, data: TextData) -> list[str]:
        """Notes and warnings to show before training."""
        return []

    def baseline(self, data: TextData) -> dict[str, dict[str, float]]:
        """The metrics of the best constant prediction, by split; empty if there is none."""
        return {}

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """Default values of a recipe's dotted keys that depend on the data."""
        return PLAIN

    def facts(self, data: TextData) -> dict[str, Any]:
        """Additional fields of the model's configuration."""
        return {}

    def build(self, recipe: Recipe, data: TextData) -> PreTrainedModel:
        """Build a model with newly initialized weights."""
        return build_model(
            self.head, recipe.model, data.tokenizer, data.report.max_length, data.labels, **self.facts(data)
        )

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:  # noqa: B027
        """Initialize weights from the data, before the first step."""

    def yardstick(self, recipe: Recipe, data: TextData, refit: bool) -> "Yardstick | None":
        """Scores of a simple method on the same rows; None if there is none.

        `refit` is whether the tested model was also trained on the validation rows.
        """
        return None

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction | None:
        """`loss(outputs, labels, num_items_in_batch)`; None if the model computes its own."""
        return None

    def collator(self, session: Session) -> Collator:
        """The collator for training batches."""
        return Collator(session.pad)

    @abstractmethod
    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        """The score on a split, computed by all processes; `final` is False during training."""

    @abstractmethod
    def predict(self, session: Session, texts: Sequence[str], where: Where, **options: Any) -> Sequence[Prediction]:
        """One prediction per text; `where(i)` is the location of text i, for error messages."""

    def graph(self, logits: Tensor, config: PreTrainedConfig) -> Tensor:
        """The output of an exported graph."""
        return logits

    @abstractmethod
    def description(self, config: PreTrainedConfig) -> str:
        """What the model does, for the model card, such as "sorts texts into 2 classes"."""

    @abstractmethod
    def snippet(self, name: str, config: PreTrainedConfig) -> str:
        """Python code that uses the model, for the model card; `name` is a quoted string."""
