"""The base classes of kinds of task, for training, evaluation, prediction and export.

To add a kind, write a file with a subclass of `Kind` (or of `EncoderKind`, if the model has one output row per text)
and add a line to `registry.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from ..config.learning import PLAIN
from ..config.recipe import Recipe, TrainingOptions
from ..core.errors import UserError
from ..data import DataOptions, TextData
from ..data.batching import Collator
from ..data.options import changed
from ..data.registry import TASKS, Task, task_of
from ..metrics.classification import ClassScore
from .session import Session
from .systems import build_model, check_model

if TYPE_CHECKING:
    from datasets import Dataset

LossFunction = Callable[..., Tensor]
Where = Callable[[int], str]
PIPELINE = "from transformers import pipeline\n\n"


class Table(NamedTuple):
    title: str
    columns: list[str]
    cells: list[list[str]]


def class_rows(classes: Sequence[ClassScore]) -> list[list[str]]:
    """Rows of a table: label, precision, recall, F1 and number of rows."""
    return [[s.label, f"{s.precision:.4f}", f"{s.recall:.4f}", f"{s.f1:.4f}", f"{s.rows:,}"] for s in classes]


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

    def notes(self, training: TrainingOptions) -> list[str]:
        """Warnings about the score of a model that was trained with these settings."""
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
        explained: Whether `explain` shows its models.
        tasks: Tasks of this kind in addition to those of `transevolve.data`; the values of `data.task`.
        defaults: Default values of a recipe's dotted keys.
        refused: Dotted keys that must not be set, each with the reason.
        metrics: The name of each metric, and whether higher is better. The first selects the model by default.
        patience: Validations without improvement after which training stops, by default; 0 disables it.
        scored_alike: Whether validation during training is scored exactly like the selected model.
        chosen_on_validation: Fields of the model's configuration that scoring during training sets.
        evaluation_options: Options of `evaluate` that this kind supports, among those that only some kinds support.
        reading: Data settings of the training that also apply to a file of `evaluate`.
        head: The model's head, as in `transevolve.models.heads` without its prefix.
        auto_class: Hugging Face's Auto class for its models.
        pipeline_tag: Hugging Face's name of the task.
        graph_output: The output name of an exported graph (ONNX, torch.export); None if export is not supported.
        example: Python code that uses a model, for its card; `{name}` is the model's quoted name.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    command: ClassVar[str] = "predict"
    explained: ClassVar[bool] = False
    tasks: ClassVar[Mapping[str, Task]] = {}
    defaults: ClassVar[Mapping[str, Any]] = {"training.beta2": 0.999, "training.eps": 1e-8}
    refused: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[Mapping[str, bool]]
    patience: ClassVar[int] = 0
    scored_alike: ClassVar[bool] = True
    chosen_on_validation: ClassVar[tuple[str, ...]] = ()
    evaluation_options: ClassVar[frozenset[str]] = frozenset({"file", "text"})
    reading: ClassVar[frozenset[str]] = frozenset({"text", "max_length"})
    head: ClassVar[str]
    auto_class: ClassVar[Any]
    pipeline_tag: ClassVar[str]
    graph_output: ClassVar[str | None] = None
    example: ClassVar[str]

    def fits(self, config: PreTrainedConfig) -> bool:
        """Whether a saved model can be of this kind; by default if it has the head."""
        return any(name.endswith(self.head) for name in config.architectures or ())

    def labels(self, config: PreTrainedConfig) -> list[str] | None:
        """The names of a saved model's outputs."""
        return None

    def evaluation_data(self, trained: DataOptions, files: Mapping[str, Any]) -> tuple[str, DataOptions] | None:
        """A name, and options that read the files as the split `test`; None if no file is given.

        `files` contains all options of `evaluate` for files and columns.
        """
        file, task = files.get("file"), task_of(trained)
        columns = {name: value for name in ("text", "label") if (value := files.get(name)) is not None}
        if file is None:
            if columns:
                raise UserError(f"--{next(iter(columns))} names a column of --file: add --file")
            return None
        if "test" not in TASKS[task].uses:
            raise UserError(f"{trained.task} is generated and has no columns to read from --file; use --split")
        kept = {name: getattr(trained, name) for name in changed(trained) & self.reading}
        return Path(file).name, replace(DataOptions(task=task, **kept), test=file, **columns)

    def check(self, recipe: Recipe) -> None:
        """Raise an error for invalid settings of the model, before the data are loaded."""
        check_model(self.head, recipe.model)

    def check_vocabulary(self, recipe: Recipe, size: int) -> None:  # noqa: B027
        """Raise an error for settings that need more tokens; `size` is the largest possible, then the actual one."""

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

    def sample_labels(self, ids: Tensor, config: PreTrainedConfig) -> dict[str, Any]:
        """Labels for random tokens (batch, length), to measure the memory of a training step."""
        return {"labels": ids}

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

    def snippet(self, name: str, config: PreTrainedConfig) -> str:
        """Python code that uses the model, for the model card; `name` is a quoted string."""
        return f"import transevolve  # registers the model\n{self.example.format(name=name)}"
