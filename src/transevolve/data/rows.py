"""Labelled texts with their line numbers: on disk inside a workspace, otherwise in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import UserError, nearest, quoted
from .labels import canonical
from .stored import new_numbers, new_texts, reading, select_rows
from .tables import Table, place_of, require_unicode


@dataclass
class Rows:
    """Columns of a split. Append all rows first, then read them as sequences."""

    file: str
    unit: str = "line"
    texts: Any = field(default_factory=new_texts)
    labels: Any = field(default_factory=new_texts)
    numbers: Any = field(default_factory=new_numbers)
    files: Sequence[str] = ()

    def where(self, index: int) -> str:
        return place_of(self.numbers[index], self.files or (self.file,), self.unit)

    def select(self, indices: np.ndarray) -> "Rows":
        columns = (select_rows(column, indices) for column in (self.texts, self.labels, self.numbers))
        return Rows(self.file, self.unit, *columns, files=self.files)


def read_rows(table: Table, text: str, label: str) -> Rows:
    """All rows of a table. A row without text is kept as an empty text; a row without a label is an error."""
    rows = Rows(table.file, table.unit, files=table.files)
    same: dict[str, str] = {}
    with reading(table.file) as advance:
        for number, (content, mark) in table.select((text, label)):
            name = checked_label(mark, table, number, label)
            rows.texts.append(checked_text(content, table, number, text))
            rows.labels.append(same.setdefault(name, name))
            rows.numbers.append(number)
            advance(1)
    return rows


def checked_text(value: Any, table: Table, number: int, column: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(
            f"{table.where(number)}: {column!r} contains a {type(value).__name__}, not a text; is it the text column?"
        )
    require_unicode(value, f"{table.where(number)}: {column!r}")
    return value


def checked_label(value: Any, table: Table, number: int, column: str) -> str:
    try:
        name = canonical(value)
    except TypeError as error:
        raise UserError(
            f"{table.where(number)}: {column!r} contains a {error}, not a class; is it the label column?"
            " For several labels per row, set data.task to multilabel"
        ) from None
    if name is None:
        raise UserError(f"{table.where(number)}: the label {column!r} is empty; fill it in, or remove the row")
    require_unicode(name, f"{table.where(number)}: the label {column!r}")
    return name


def class_indices(rows: Rows, labels: Sequence[str], known_from: str) -> np.ndarray:
    """The class of each row as an index into `labels`; an unknown label is an error."""
    index = {label: position for position, label in enumerate(labels)}
    try:
        return np.fromiter((index[label] for label in rows.labels), dtype=np.int64, count=len(rows.labels))
    except KeyError:
        place = next(i for i, label in enumerate(rows.labels) if label not in index)
        name = rows.labels[place]
        raise UserError(
            f"{rows.where(place)}: the label {name!r} is not among those of {known_from}: {quoted(labels)}"
            f"{nearest(name, labels)}"
        ) from None
