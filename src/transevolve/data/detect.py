"""Detects the task from the columns of a table: lists of words and tags, or lists of labels."""

from pathlib import Path

from ..core.errors import UserError
from .columns import LABEL_NAMES, recognized
from .conll import TAG_NAMES, TOKENS, WORD_NAMES
from .files import split_files
from .options import DataOptions
from .registry import task_of
from .sources import MULTILABEL
from .tables import open_table, table_format


def detected_task(options: DataOptions) -> str:
    """The name of the task: `files` unless a jsonl or parquet table contains lists. Read errors are ignored here."""
    task = task_of(options)
    if task != "files" or options.path is None:
        return options.task
    try:
        file = split_files(options).get("train", [Path()])[0]
        if table_format(file) not in ("jsonl", "parquet"):
            return task
        table = open_table(file)
        _, values = next(table.select(table.columns))
    except (UserError, OSError, StopIteration):
        return task
    lists = [name for name, value in zip(table.columns, values, strict=True) if isinstance(value, list)]
    if any(name in lists for name in WORD_NAMES) and any(name in lists for name in TAG_NAMES):
        return TOKENS
    label = options.label or recognized(table.columns, LABEL_NAMES, set())
    return MULTILABEL if label in lists else task
