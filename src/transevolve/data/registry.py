"""All tasks by name. To add a task, write a file and add a line here; a new kind of task registers its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError, nearest, quoted
from . import docstrings, listops, text, translation
from .conll import CONLL, TOKENS
from .data import TextData
from .options import PAIR_OPTIONS, SPLITS, DataOptions, Split, changed, check_options
from .sources import MULTILABEL
from .wide_rows import names_of

Load = Callable[[DataOptions, PreTrainedTokenizerFast | None, Sequence[str] | None, Sequence[Split]], TextData]


@dataclass(frozen=True)
class Task:
    """A data set: its summary, the options it uses besides task, seed and cache, its loader, and its kind."""

    summary: str
    uses: frozenset[str]
    load: Load
    kind: str = "classification"


TASKS: dict[str, Task] = {
    "files": Task("your own texts and classes: csv, tsv, jsonl or parquet", text.USES, text.FILES.load),
    "translation": Task("pairs of sentences, line by line", translation.USES, translation.load, "translation"),
    "listops": Task("nested list operations, generated (Long Range Arena)", listops.USES, listops.load),
    "docstrings": Task(
        "sentences of docstrings, by library, found on this machine", docstrings.USES, docstrings.DOCSTRINGS.load
    ),
    "agnews": Task("AG News: four topics, word pieces", text.USES, text.AG_NEWS.load),
    "imdb": Task("IMDB reviews: sentiment, word pieces", text.USES, text.IMDB.load),
    "imdb-char": Task("IMDB reviews: sentiment, 4000 characters", text.USES, text.IMDB_CHAR.load),
}


def task_of(options: DataOptions) -> str:
    """The task's name. The task `files` with options that only another task has means that task."""
    if options.task != "files":
        return options.task
    if changed(options) & PAIR_OPTIONS:
        return "translation"
    if options.path is not None and Path(options.path).suffix.lower() in CONLL:
        return TOKENS
    return MULTILABEL if options.label_separator or len(names_of(options.label)) > 1 else "files"


def load_data(
    options: DataOptions,
    *,
    tokenizer: PreTrainedTokenizerFast | None = None,
    labels: Sequence[str] | None = None,
    splits: Sequence[Split] = SPLITS,
) -> TextData:
    """Load and tokenize the splits of a task.

    If `source` and `target` or their languages are set, the task is translation.

    Args:
        options: The data settings.
        tokenizer: The tokenizer of a saved model. By default, the task creates one.
        labels: The labels of a saved model. By default, the task reads them from the training rows.
        splits: The splits to load. Their rows are the same as in training; other splits are read only if needed.
    """
    options = replace(options, task=task_of(options))
    task = TASKS.get(options.task)
    if task is None:
        raise UserError(f"there is no task {options.task!r}: choose from {quoted(TASKS)}{nearest(options.task, TASKS)}")
    check_options(options, task.uses)
    return task.load(options, tokenizer, labels, splits)
