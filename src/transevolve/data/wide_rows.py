"""Rows with more than one text or label: pairs of texts, and any number of labels per text.

The two texts of a row are stored in one string, separated by a tab; its labels in one string, separated by `BETWEEN`.
"""

from collections.abc import Sequence
from typing import Any

from ..core.errors import UserError
from .labels import canonical
from .rows import Rows, checked_label, checked_text
from .stored import reading
from .tables import Table, require_unicode

TAB, BETWEEN = "\t", "\x1f"
TRUTH = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}


def names_of(columns: str | Sequence[str] | None) -> list[str]:
    """The column names as a list."""
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)


def join_pair(texts: Sequence[str]) -> str:
    """Join two texts with a tab; tabs inside the texts become spaces."""
    return TAB.join(text.replace(TAB, " ") for text in texts)


def split_pair(text: str, where: str) -> tuple[str, str]:
    """The two texts of a pair."""
    first, tab, second = text.partition(TAB)
    if not tab or TAB in second or not first.strip() or not second.strip():
        raise UserError(f"{where}: not a pair of texts; write both, separated by one tab")
    return first, second


def read_wide_rows(table: Table, text: list[str], label: list[str], several: bool, separator: str | None) -> Rows:
    """Like `read_rows`, for one or two text columns; with `several` labels per row, a row may have no label."""
    rows = Rows(table.file, table.unit, files=table.files)
    with reading(table.file) as advance:
        for number, values in table.select((*text, *label)):
            contents = [checked_text(value, table, number, name) for value, name in zip(values, text, strict=False)]
            if len(text) > 1:
                _require_both(contents, text, table, number)
            marks = values[len(text) :]
            rows.texts.append(join_pair(contents) if len(text) > 1 else contents[0])
            if len(label) > 1:
                rows.labels.append(BETWEEN.join(_true_columns(marks, label, table, number)))
            elif several:
                rows.labels.append(BETWEEN.join(_listed(marks[0], separator, table, number, label[0])))
            else:
                rows.labels.append(checked_label(marks[0], table, number, label[0]))
            rows.numbers.append(number)
            advance(1)
    return rows


def _require_both(texts: list[str], columns: list[str], table: Table, number: int) -> None:
    for text, column in zip(texts, columns, strict=True):
        if not text.strip():
            raise UserError(
                f"{table.where(number)}: {column!r} is empty; a pair needs both texts: fill it in, or remove the row"
            )


def _true_columns(marks: Sequence[Any], names: list[str], table: Table, number: int) -> list[str]:
    found = []
    for mark, name in zip(marks, names, strict=True):
        try:
            true = TRUTH[str(canonical(mark)).lower()]
        except (KeyError, TypeError):
            raise UserError(
                f"{table.where(number)}: the label column {name!r} contains {mark!r}; with several label columns,"
                " each must contain 0 or 1"
            ) from None
        if true:
            found.append(name)
    return found


def _listed(value: Any, separator: str | None, table: Table, number: int, column: str) -> list[str]:
    """The labels in one cell: a list, in jsonl and parquet, or a text with separators."""
    if isinstance(value, str) and separator is None:
        raise UserError(
            f"{table.where(number)}: {column!r} contains a text, {value!r:.60}: set the separator of its labels with"
            " data.label_separator"
        )
    cells = value.split(separator) if isinstance(value, str) else [] if value is None else value
    if not isinstance(cells, list):
        cells = [cells]
    try:
        names = [canonical(cell) for cell in cells]
    except TypeError as error:
        raise UserError(f"{table.where(number)}: {column!r} contains a {error}, not labels") from None
    for name in names:
        require_unicode(name or "", f"{table.where(number)}: the label {column!r}")
    return list(dict.fromkeys(name.replace(BETWEEN, " ") for name in names if name is not None))
