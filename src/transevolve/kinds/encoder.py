"""Kinds whose model is an encoder with one output row per text."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import TextData
from ..data.batching import RowStore
from ..data.long_texts import averaged, encode_windows, labels_and_owners
from ..data.notes import text_notes
from ..data.pair_tokenizers import is_paired
from ..data.views import column_array
from ..data.wide_rows import join_pair
from .bag_settings import decided_for_texts
from .base import Kind, Prediction, Score, Where
from .session import Session
from .systems import check_model, possible_shape

if TYPE_CHECKING:
    from datasets import Dataset


class LabelledKind(Kind):
    """Kinds with labelled texts; the labels are the names of the model's outputs."""

    evaluation_options = frozenset({"file", "text", "label"})
    reading = frozenset({"text", "label", "label_separator", "max_length", "long"})
    graph_output = "logits"

    def labels(self, config: PreTrainedConfig) -> list[str]:
        names = config.id2label or {}
        if sorted(names) != list(range(len(names))) or len(names) != config.num_labels:
            raise UserError(f"{config.name_or_path} does not load: its labels are not numbered from 0")
        return [str(names[number]) for number in range(len(names))]  # pyright: ignore[reportArgumentType]

    def notes(self, recipe: Recipe, data: TextData) -> list[str]:
        return text_notes(data.report)


class EncoderKind(LabelledKind):
    """Subclasses score outputs (`assess`) and convert them to predictions (`prediction`).

    Attributes:
        starts_as_bag: Whether models of words are initialized as a bag of words by default.
    """

    head = "ForSequenceClassification"
    auto_class = AutoModelForSequenceClassification
    pipeline_tag = "text-classification"
    starts_as_bag: ClassVar[bool] = False

    @abstractmethod
    def assess(self, outputs: np.ndarray, labels: np.ndarray, config: PreTrainedConfig) -> Score:
        """The score of outputs (rows x outputs) against the labels of the data."""

    @abstractmethod
    def prediction(self, text: str, output: np.ndarray, config: PreTrainedConfig) -> Prediction:
        """Convert a row of outputs to a prediction."""

    def bag_targets(self, labels: np.ndarray, data: TextData) -> np.ndarray | None:
        """(rows, classes), 1 if the text belongs to the class; or (rows,), a number for each text."""
        return None

    def check(self, recipe: Recipe) -> None:
        check_model(self.head, possible_shape(recipe.model))

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """Pairs do not start as a bag of words, which cannot represent whether two texts match."""
        words = data.texts("train") is not None and data.tokenizer.init_kwargs.get("unit") is None
        return decided_for_texts(recipe, data, words and self.starts_as_bag and not is_paired(data.tokenizer))

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:
        if recipe.model.initialization == "bag":
            from .bag_start import start_from_texts

            assert data.train is not None
            labels = column_array(data.train, "labels")
            start_from_texts(model, recipe, data, self.bag_targets(labels, data))

    def sample_labels(self, ids: Tensor, config: PreTrainedConfig) -> dict[str, Any]:
        return {"labels": torch.zeros(len(ids), dtype=torch.long)}

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> Score:
        return self.assess(*self.row_outputs(session, rows), session.model.config)

    def row_outputs(self, session: Session, rows: "Dataset") -> tuple[np.ndarray, np.ndarray]:
        """The outputs and label of each text; outputs are averaged over windows."""
        labels, owners = labels_and_owners(rows)
        return averaged(self.outputs(session, RowStore(rows)), owners), labels

    def constant_output(self, labels: np.ndarray, outputs: int) -> np.ndarray | None:
        """The best constant output, computed from the training labels; None if it is unknown."""
        return None

    def baseline_settings(self, labels: np.ndarray) -> dict[str, Any]:
        """Fields of the configuration that `assess` reads, for the constant output."""
        return {}

    def baseline(self, data: TextData) -> dict[str, dict[str, float]]:
        assert data.train is not None
        labels = labels_and_owners(data.train)[0]
        answer = self.constant_output(labels, len(data.labels))
        if answer is None:
            return {}
        config, found = PreTrainedConfig(id2label=dict(enumerate(data.labels))), {}
        config.update(self.baseline_settings(labels))
        for split in ("validation", "test"):
            rows = data.split(split)
            if rows is not None:
                truth = labels_and_owners(rows)[0]
                found[split] = self.assess(np.tile(answer, (len(truth), 1)), truth, config).metrics
        return found

    def predict(
        self, session: Session, texts: Sequence[str | Sequence[str]], where: Where, **options: Any
    ) -> list[Prediction]:
        """A pair is a sequence of two texts, or one string with a tab between them."""
        single = [text if isinstance(text, str) else join_pair(text) for text in texts]
        owners = None
        if session.recipe.data.long == "window":
            encoded, owners = encode_windows(session.tokenizer, single, session.max_length, where)
        else:
            encoded = session.encode(single, where)
        outputs = averaged(self.outputs(session, RowStore({"input_ids": encoded.rows()})), owners)
        config = session.model.config
        return [self.prediction(text, output, config) for text, output in zip(single, outputs, strict=True)]

    def outputs(self, session: Session, rows: RowStore) -> np.ndarray:
        """The outputs of each row, in the scale of the labels."""
        config = session.model.config
        return session.outputs(rows, self.collator(session), lambda logits: self.graph(logits, config))
