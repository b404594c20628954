"""Loads a trained model to predict, translate, embed, stream and evaluate."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import Recipe
from ..core.devices import require_device
from ..core.errors import UserError
from ..core.progress import Bar, progress_of
from ..core.windows import windows
from ..data import DataOptions, load_data
from ..data.frames import is_frame, stored, text_list
from ..data.options import SPLITS, Split
from ..data.wide_rows import join_pair
from ..kinds.base import Kind, Prediction, Score
from ..kinds.registry import kind_of_model, read_config
from ..kinds.session import Session
from ..kinds.translation import TranslationPrediction, run_search
from ..models.int8 import is_int8, quantize
from ..runs.averaging import last_checkpoints
from ..runs.data_record import locate_data, require_same_data
from ..runs.folder import check_run, load_model, load_run_recipe, load_run_tokenizer
from ..runs.names import RESULTS
from ..runs.results import numbers, read_results
from .embedding import embeddings
from .predictions import Predictions

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R", bound="LoadedRun")
Texts = Any  # a list of texts, a Series, an array, or a DataFrame
Precision = Literal["float32", "int8"]
WINDOW = 1024


def load(
    folder: str | Path,
    device: str | torch.device | None = None,
    *,
    batch_tokens: int | None = None,
    precision: Precision | None = None,
) -> "LoadedRun":
    """Load the model of a run folder, checked against its manifest.

    Args:
        folder: The run folder.
        device: By default the first GPU, or the CPU; int8 runs on the CPU.
        batch_tokens: Tokens per batch; by default the recipe's training.eval_tokens.
        precision: int8 quantizes linear layers, embeddings and the output; by default as stored in the folder.
    """
    return load_as(LoadedRun, folder, device, batch_tokens, precision)


def load_as(
    made: "type[R]",
    folder: str | Path,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
    precision: Precision | None = None,
) -> "R":
    """Like `load`, for a subclass of `LoadedRun`."""
    folder = Path(folder)
    check_run(folder)
    recipe = load_run_recipe(folder)
    kind = kind_of_model(recipe, read_config(folder))
    model = load_model(folder, kind.auto_class, keep_int8=precision != "float32")
    if precision == "int8" and not is_int8(model):
        quantize(model)
    if is_int8(model):
        if device is not None and torch.device(device).type != "cpu":
            raise UserError(f"int8 runs on the CPU, not on {device}")
        device = "cpu"
    return made(folder, recipe, kind, _session(model, load_run_tokenizer(folder), recipe, device, batch_tokens))


def _session(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    device: str | torch.device | None = None,
    batch_tokens: int | None = None,
) -> Session:
    if batch_tokens is not None and batch_tokens < 1:
        raise UserError(f"--batch_tokens must be at least 1, not {batch_tokens}")
    where = require_device(device)
    model.to(where)  # pyright: ignore[reportArgumentType]
    return Session(model, tokenizer, recipe, where, batch_tokens or recipe.training.eval_tokens)


@dataclass(frozen=True)
class Evaluation:
    """The score of a run on some rows.

    Args:
        name: The split's name, or the file's.
        report: A description of the rows, as lines of text.
        seconds: Seconds for predictions and scores, without reading the data.
        trained_on: Whether the model was trained on these rows; if so, the score does not estimate that on new rows.
    """

    name: str
    score: Score
    report: list[str]
    seconds: float
    trained_on: bool = False

    @property
    def metrics(self) -> dict[str, float]:
        return self.score.metrics

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        return f"Evaluation({self.name!r}, {self.score.rows:,} rows: {metrics})"

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self.name, "trained_on": self.trained_on, **self.score.as_dict()}

    def to_pandas(self) -> "pd.DataFrame":
        """One row per class if there are classes, otherwise one row of metrics."""
        import pandas as pd

        classes = self.as_dict().get("classes")
        return pd.DataFrame([self.metrics], index=[self.name]) if classes is None else pd.DataFrame(classes)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().to_html(border=0)}"


@dataclass(frozen=True)
class LoadedRun:
    """A run's model, ready to use.

    Args:
        folder: The run folder.
        recipe: The settings it was trained with.
        kind: The kind of its task.
        session: The model with its tokenizer and device.
    """

    folder: Path
    recipe: Recipe
    kind: Kind
    session: Session

    @property
    def model(self) -> PreTrainedModel:
        return self.session.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return self.session.tokenizer

    @property
    def truncated(self) -> int:
        """The number of truncated texts so far."""
        return self.session.truncated

    @property
    def max_length(self) -> int:
        """The maximum number of tokens per text."""
        return self.session.max_length

    def __repr__(self) -> str:
        return f"LoadedRun({str(self.folder)!r}, {self.kind.name}, {self.session.device})"

    @property
    def columns(self) -> list[str] | None:
        """The columns of the training table, for a model of pairs of texts."""
        text = self.recipe.data.text
        return text if isinstance(text, list) else None

    @overload
    def predict(self, texts: str, **options: Any) -> Prediction: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def predict(self, texts: Texts, **options: Any) -> Predictions[Prediction]: ...
    def predict(self, texts: str | Texts, **options: Any) -> Prediction | Predictions[Prediction]:
        """Predict each text; a single text gives a single prediction. A pair of texts is a sequence of two.

        Texts are a list, a Series, or a DataFrame, whose column is the one of the training data. The predictions are a
        list with `to_pandas()`.
        """
        if isinstance(texts, str):
            return self.predict([texts], **options)[0]
        texts = text_list(texts, self.recipe.data.text)
        with self.progress(self.kind.command, len(texts)):
            return Predictions(self.stream(enumerate(texts, start=1), "text", **options))

    @overload
    def translate(self, texts: str, **search: Any) -> TranslationPrediction: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def translate(self, texts: Texts, **search: Any) -> Predictions[TranslationPrediction]: ...
    def translate(self, texts: str | Texts, **search: Any) -> Any:
        """Translate each sentence; `search` takes the search options of `transevolve translate`."""
        self.require("translate")
        return self.predict(texts, search=run_search(self.recipe, **search))

    def embed(self, texts: str | Texts) -> np.ndarray:
        """Vectors of texts (texts x width): the mean of the encoder's output over tokens.

        For one text, one vector. A pair of texts, for a model of pairs, is a sequence of two.
        """
        if isinstance(texts, str):
            return self.embed([texts])[0]
        texts = text_list(texts, self.recipe.data.text)
        joined = [text if isinstance(text, str) else join_pair(text) for text in texts]
        with self.progress("embed", len(joined)):
            return embeddings(self.session, joined, lambda i: f"text {i + 1}")

    def progress(self, title: str, total: int | None, unit: str = "texts") -> AbstractContextManager[Bar]:
        """Show a progress bar for predicted rows."""
        return progress_of(self.session, title, total, unit)

    def stream(
        self, texts: Iterable[tuple[int, Any]], source: str, window: int = WINDOW, **options: Any
    ) -> Iterator[Prediction]:
        """Predictions for (line number, text), in constant memory; `source` is the name of the texts in error messages.

        Texts are read in windows, sorted by length inside.
        """
        for items in windows(texts, window):
            yield from self.answer(items, source, **options)

    def answer(self, items: Sequence[tuple[int, Any]], source: str, **options: Any) -> Sequence[Prediction]:
        """Predictions for a window of (line number, text)."""
        texts = [text for _, text in items]
        return self.kind.predict(self.session, texts, lambda i: f"{source}, line {items[i][0]}", **options)

    def evaluate(
        self,
        split: "Split | str | Path | pd.DataFrame" = "test",
        *,
        data: str | None = None,
        files: dict[str, Any] | None = None,
        **options: Any,
    ) -> Evaluation:
        """The score on a split of the run's data, on a DataFrame, or on files.

        Args:
            split: Which split; or a labelled file or DataFrame with the columns of the training data.
            data: Where the data of the run are, if they have moved.
            files: The files to score instead, by the names of `transevolve evaluate`'s options.
        """
        part: Split = "test"
        if is_frame(split) or split not in SPLITS:
            files = {"file": stored(split, self.recipe.data.cache), **(files or {})}
        named = self.kind.evaluation_data(self.recipe.data, files or {})
        if named is not None:
            name, chosen = named
        else:
            name = part = cast(Split, split)
            chosen = split_options(self.folder, self.recipe.data, part, data)
        loaded = load_data(chosen, tokenizer=self.tokenizer, labels=self.kind.labels(self.model.config), splits=(part,))
        rows = loaded.split(part)
        if rows is None:
            raise UserError(
                f"the data of {self.folder} have no {part} split: give --split validation, or your own files"
            )
        report = [f"{name}: {facts.line()}" for facts in loaded.report.splits.values()]
        trained_on = named is None and (part == "train" or (part == "validation" and bool(self.recipe.training.refit)))
        if trained_on:
            report.append(
                f"the model was trained on the rows of {part}: expect worse scores on new data{self._before_refit()}"
            )
        with self.progress("evaluate", len(rows), "rows"):
            start = time.perf_counter()
            score = self.kind.score(self.session, rows, **options)
            seconds = time.perf_counter() - start
        return Evaluation(name, score, [*report, *score.notes(self.recipe.training)], seconds, trained_on)

    def _before_refit(self) -> str:
        """The validation score of the model that had not seen those rows, as text."""
        before = read_results(self.folder / RESULTS) if (self.folder / RESULTS).exists() else None
        if before is None or not before.refit:
            return ""
        return f"; before `training.refit`, the validation scores were {numbers(before.validation)}"

    def require(self, command: str) -> None:
        """Raise an error if a command is not for this kind of model."""
        if self.kind.command != command:
            raise UserError(f"{self.folder} is {self.kind.noun}: use `transevolve {self.kind.command}`")


def split_options(folder: Path, options: DataOptions, split: Split, moved: str | None) -> DataOptions:
    """The options to read a split as in training; changed data raise an error."""
    if moved is None:
        options = locate_data(folder, options)
    elif options.path is None:
        raise UserError(
            "--data is the new location of data.path, but this run has no data.path:"
            " name the files to score with --file, or with --source and --reference"
        )
    else:
        options = replace(options, path=moved)
    require_same_data(folder, options, "its splits cannot be reproduced; score your own files instead", split)
    return options


def score_checkpoints(folder: Path, count: int, split: Split, data: str | None) -> list[tuple[int, dict[str, float]]]:
    """The metrics of the last checkpoints."""
    recipe = load_run_recipe(folder)
    found: list[tuple[int, dict[str, float]]] = []
    rows = None
    for step, checkpoint in last_checkpoints(folder, count):
        kind = kind_of_model(recipe, read_config(checkpoint))
        session = _session(load_model(checkpoint, kind.auto_class), load_run_tokenizer(checkpoint), recipe)
        if rows is None:
            options, labels = split_options(folder, recipe.data, split, data), kind.labels(session.model.config)
            rows = load_data(options, tokenizer=session.tokenizer, labels=labels, splits=(split,)).split(split)
            if rows is None:
                raise UserError(f"the data of {folder} have no {split} split")
        found.append((step, kind.score(session, rows).metrics))
    return found
