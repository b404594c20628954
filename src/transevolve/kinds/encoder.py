"""Kinds whose model gives one row of numbers for each text: an encoder with a head."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import DataOptions, TextData
from ..data.batching import RowStore
from ..data.options import changed
from ..data.registry import TASKS
from .bag_start import decided_for_texts, start_from_texts
from .base import Kind, Prediction, Score, Where
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset

READING = ("task", "text", "label", "max_length")


class EncoderKind(Kind):
    """A subclass says what the outputs are worth (`assess`) and what they say of a text (`prediction`).

    Attributes:
        starts_as_bag: Whether models of words start as a bag of words by default.
    """

    head = "ForSequenceClassification"
    auto_class = AutoModelForSequenceClassification
    pipeline_tag = "text-classification"
    evaluation_options = frozenset({"file", "text", "label"})
    graph_output = "logits"
    starts_as_bag: ClassVar[bool] = False

    @abstractmethod
    def assess(self, outputs: np.ndarray, labels: np.ndarray, config: PreTrainedConfig) -> Score:
        """The score of outputs (rows x outputs) against the labels of the data."""

    @abstractmethod
    def prediction(self, text: str, output: np.ndarray, config: PreTrainedConfig) -> Prediction:
        """The prediction that a row of outputs stands for."""

    def membership(self, labels: np.ndarray, data: TextData) -> np.ndarray | None:
        """(rows, classes), 1 where a text is of a class; None where labels are no classes."""
        return None

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        words = data.texts("train") is not None and data.tokenizer.init_kwargs.get("unit") is None
        return decided_for_texts(recipe, data, words and self.starts_as_bag)

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:
        if recipe.model.initialization == "bag":
            assert data.train is not None
            labels = np.asarray(data.train["labels"][:])
            start_from_texts(model, recipe, data, self.membership(labels, data))

    def labels(self, config: PreTrainedConfig) -> list[str]:
        names = config.id2label or {}
        if sorted(names) != list(range(len(names))) or len(names) != config.num_labels:
            raise UserError(f"{config.name_or_path} does not load: its labels are not numbered from 0")
        return [str(names[number]) for number in range(len(names))]  # pyright: ignore[reportArgumentType]

    def evaluation_data(self, trained: DataOptions, files: Mapping[str, str | None]) -> tuple[str, DataOptions] | None:
        file = files.get("file")
        columns = {name: value for name in ("text", "label") if (value := files.get(name)) is not None}
        if file is None:
            if columns:
                raise UserError("--text and --label name columns of --file: add --file")
            return None
        if "test" not in TASKS[trained.task].uses:
            raise UserError(f"{trained.task} is generated and has no columns to read from --file; use --split")
        kept = {name: getattr(trained, name) for name in changed(trained) & {*READING}}
        return Path(file).name, replace(DataOptions(**kept), test=file, **columns)

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        config = session.model.config
        outputs = session.outputs(RowStore(rows), self.collator(session), lambda logits: self.graph(logits, config))
        return self.assess(outputs, np.asarray(rows["labels"][:]), config)

    def predict(self, session: Session, texts: Sequence[str], where: Where, **options: Any) -> list[Prediction]:
        config = session.model.config
        rows = RowStore({"input_ids": session.encode(texts, where).rows()})
        outputs = session.outputs(rows, self.collator(session), lambda logits: self.graph(logits, config))
        return [self.prediction(text, output, config) for text, output in zip(texts, outputs, strict=True)]
