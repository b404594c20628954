"""What a kind of task is: one object with all that training, evaluation, prediction and export need to know of it.

A new kind is one file with a subclass of `Kind` (or of `EncoderKind`, if the model gives one row of numbers for each
text), and one line in `registry.py`.
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
        """What `evaluate --json` prints, and NAME.evaluation.json holds."""
        return {"count": self.rows, **self.metrics}

    def tables(self) -> list[Table]:
        """What `evaluate` prints; the first title is completed by the name of the rows."""
        cells = [[name, f"{value:.4f}"] for name, value in self.metrics.items()]
        return [Table(f"{self.rows:,} rows", ["metric", "value"], cells)]

    def write(self, folder: Path, name: str) -> list[Path]:
        """Writes pictures and texts that belong to the score."""
        return []

    def notes(self) -> list[str]:
        """What a user should know of the score."""
        return []

    def compare(self, other: "Score", names: tuple[str, str]) -> tuple[dict[str, Any], Table]:
        """A test of whether two models differ on the same rows."""
        raise UserError(f"{names[0]} cannot be compared with {names[1]}: --against is for translation")


class Yardstick(Protocol):
    """A simple method, scored on the same rows."""

    def as_dict(self) -> dict[str, Any]: ...

    def lines(self, validation: Mapping[str, float], test: Mapping[str, float] | None) -> list[str]:
        """For a terminal: its scores, and what to do if it is ahead of the model with these."""
        ...


@dataclass(frozen=True)
class Prediction:
    """What a model says of one text."""

    text: str

    def line(self) -> str:
        """The prediction as `predict` prints it."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """The prediction as `predict --json` prints it."""
        raise NotImplementedError

    def row(self) -> dict[str, Any]:
        """The prediction as a row of a table: a column for each key."""
        return self.as_dict()


class Kind(ABC):
    """A kind of task.

    Attributes:
        name: What `Task.kind` calls it.
        noun: What its models are called in messages, such as "a classifier".
        command: The command that predicts with its models.
        tasks: Tasks that come with the kind, besides those of `transevolve.data`; the values of `data.task`.
        defaults: Values of a recipe's dotted keys, for what is not set.
        refused: Dotted keys that must not be set, each with the reason.
        metrics: Name of each metric, and whether higher is better; each may select the model, the first by default.
        scored_alike: Whether validation during training is scored exactly as the selected model is.
        evaluation_options: Options of `evaluate` that only some kinds take, and this one does.
        head: The model's head, as in `transevolve.models.heads` without its prefix.
        auto_class: Hugging Face's Auto class for its models.
        pipeline_tag: Hugging Face's name of the task.
        graph_output: Name of the output of an exported graph (ONNX, torch.export); None if it cannot be exported so.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    command: ClassVar[str] = "predict"
    tasks: ClassVar[Mapping[str, Task]] = {}
    defaults: ClassVar[Mapping[str, Any]] = {}
    refused: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[Mapping[str, bool]]
    scored_alike: ClassVar[bool] = True
    evaluation_options: ClassVar[frozenset[str]] = frozenset()
    head: ClassVar[str]
    auto_class: ClassVar[Any]
    pipeline_tag: ClassVar[str]
    graph_output: ClassVar[str | None] = None

    @abstractmethod
    def fits(self, config: PreTrainedConfig) -> bool:
        """Whether a saved model can be of this kind."""

    def labels(self, config: PreTrainedConfig) -> list[str] | None:
        """The names of a saved model's outputs, as its data were loaded with."""
        return None

    @abstractmethod
    def evaluation_data(self, trained: DataOptions, files: Mapping[str, Any]) -> tuple[str, DataOptions] | None:
        """A name, and options that read the files as split `test`; None if no file is named.

        `files` has the values of all of `evaluate`'s options that name files and columns.
        """

    def check(self, recipe: Recipe, data: TextData | None = None) -> None:
        """Refuses settings that cannot work: before data are read, and again when they are."""
        if data is None:
            check_model(self.head, recipe.model)

    def notes(self, recipe: Recipe, data: TextData) -> list[str]:
        """What a user should know before training starts."""
        return []

    def baseline(self, data: TextData) -> dict[str, dict[str, float]]:
        """By split, the metrics of the best answer that ignores the texts; empty if there is none."""
        return {}

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """Values of a recipe's dotted keys, for what is still open once the data is known."""
        return PLAIN

    def facts(self, data: TextData) -> dict[str, Any]:
        """Fields of the model's configuration, besides those of the tokenizer and the names of the outputs."""
        return {}

    def build(self, recipe: Recipe, data: TextData) -> PreTrainedModel:
        """A model with fresh weights."""
        return build_model(
            self.head, recipe.model, data.tokenizer, data.report.max_length, data.labels, **self.facts(data)
        )

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:  # noqa: B027
        """Changes fresh weights by what the data says, before the first step."""

    def yardstick(self, recipe: Recipe, data: TextData, refit: bool) -> "Yardstick | None":
        """What a simple method makes of the same rows; None if there is none to compare with.

        `refit` is whether the model that is tested has learned from the rows of validation too.
        """
        return None

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction | None:
        """`loss(outputs, labels, num_items_in_batch)`; None if the model computes its own."""
        return None

    def collator(self, session: Session) -> Collator:
        """How rows become a batch."""
        return Collator(session.pad)

    @abstractmethod
    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        """The score on a split, computed by all processes together; `final` is False while training."""

    @abstractmethod
    def predict(self, session: Session, texts: Sequence[str], where: Where, **options: Any) -> Sequence[Prediction]:
        """A prediction for each text; `where(i)` names text i in errors."""

    def graph(self, logits: Tensor, config: PreTrainedConfig) -> Tensor:
        """The output of an exported graph."""
        return logits

    @abstractmethod
    def description(self, config: PreTrainedConfig) -> str:
        """What the model does, for its card: "sorts texts into 2 classes"."""

    @abstractmethod
    def snippet(self, name: str, config: PreTrainedConfig) -> str:
        """Python that uses the model, for its card; `name` is a quoted string."""
