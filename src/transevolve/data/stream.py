"""Reads texts one by one, in constant memory, from a file or a stream such as stdin."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..core.errors import UserError
from .columns import choose_text_column, require_column
from .lines import decompressed, numbered_lines, open_bytes, stripped
from .rows import checked_text
from .tables import FORMATS, Table, open_table, table_format
from .wide_rows import join_pair


def iter_texts(source: str | Path | BinaryIO, column: str | list[str] | None = None) -> Iterator[tuple[int, str]]:
    """Iterate over texts; yields (line number, text), including empty texts.

    For csv, tsv, jsonl and parquet files, the texts are those of `column`, by default the recognized text column.
    Parquet has row numbers instead of line numbers. Two columns yield pairs of texts, separated by a tab. Any other
    file, and a binary stream such as `sys.stdin.buffer`, has one text per line.
    """
    if isinstance(source, str | Path) and table_format(source) is not None:
        table = open_table(source)
        if isinstance(column, list):
            yield from _pairs(table, column)
            return
        column = choose_text_column(table, column)
        for number, (text,) in table.select((column,)):
            yield number, checked_text(text, table, number, column)
    elif isinstance(column, str):
        raise UserError(
            f"{source}: has no column {column!r}, it is read as one text per line;"
            f" the name of a table ends in {', '.join(FORMATS)}, plain or .gz"
        )
    elif isinstance(source, str | Path):
        with open_bytes(source) as stream:
            yield from _lines(stream, str(source))
    else:
        yield from _lines(decompressed(source), getattr(source, "name", "stream"))


def _pairs(table: Table, columns: list[str]) -> Iterator[tuple[int, str]]:
    for name in columns:
        require_column(table, name, "text")
    for number, values in table.select(columns):
        texts = [checked_text(text, table, number, name) for text, name in zip(values, columns, strict=True)]
        yield number, join_pair(texts)


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    for number, line in numbered_lines(stream, str(name)):
        yield number, stripped(line)
