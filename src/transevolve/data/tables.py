"""csv, tsv, jsonl and parquet files behind one interface, read in constant memory."""

import csv
import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..core.errors import UserError, first_line, quoted
from ..core.json_files import parse_json
from .lines import gzip_errors, numbered_lines, open_bytes, stripped

Record = tuple[int, tuple[Any, ...]]
QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"')
FIRST_OF_NEXT = 1 << 40
FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Table:
    """A table of records; `select(names)` yields the number and the values of each record.

    `fingerprint` identifies the contents if the table is not a file. If the table has several `files`, the numbers of
    the second start at `FIRST_OF_NEXT`, those of the third at twice that.
    """

    file: str
    unit: str
    columns: list[str]
    select: Callable[[Sequence[str]], Iterator[Record]]
    fingerprint: str | None = None
    files: Sequence[str] = ()

    def where(self, number: int) -> str:
        return place_of(number, self.files or (self.file,), self.unit)


def place_of(number: int, files: Sequence[str], unit: str) -> str:
    """The file and line of a record."""
    part, line = divmod(number, FIRST_OF_NEXT)
    return f"{files[part]}, {unit} {line}"


def table_format(path: str | Path) -> str | None:
    """csv, tsv, jsonl or parquet, by the file's extension, or None."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".gzip"):
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def open_table(path: str | Path) -> Table:
    """Open a file and read its column names; a file without records is an error."""
    kind = table_format(path)
    if kind is None:
        raise UserError(f"{path}: unknown file type; use .csv, .tsv, .jsonl or .parquet, plain or .gz")
    table = {"csv": _open_csv, "tsv": _open_tsv, "jsonl": _open_jsonl, "parquet": _open_parquet}[kind](str(path))
    twice = [name for name in dict.fromkeys(table.columns) if name and table.columns.count(name) > 1]
    if twice:
        raise UserError(f"{path}: there are two columns named {twice[0]!r}; rename one")
    for name in table.columns:
        require_unicode(name, f"{path}: the column {name!a}")
    if next(table.select(table.columns[:1]), None) is None:
        raise UserError(f"{path}: the file contains no rows; put the data in it")
    return table


def require_unicode(text: str, where: str) -> None:
    """Raise an error for an unpaired surrogate: JSON can escape it, but it cannot be encoded or tokenized."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where} contains {text[error.start]!a}, an unpaired surrogate; write both halves") from None


def _open_csv(path: str) -> Table:
    header = _header_line(path)
    delimiter = "," if "," in header else next((mark for mark in ";\t" if mark in header), ",")
    return _delimited(path, lambda: _quoted_records(path, delimiter))


def _open_tsv(path: str) -> Table:
    """Open a tsv file. If every line has as many tabs as the header, each line is a record and quotes are text.

    Otherwise the texts contain quoted tabs or line breaks, and the file is read as tab-separated csv.
    """
    tabs = _header_line(path).count("\t")
    with open_bytes(path) as stream:
        plain = tabs > 0 and all(
            line.count("\t") == tabs for _, line in numbered_lines(stream, path) if line.strip("\r\n")
        )
    return _delimited(path, (lambda: _plain_records(path)) if plain else (lambda: _quoted_records(path, "\t")))


def _header_line(path: str) -> str:
    with open_bytes(path) as stream:
        for _, line in numbered_lines(stream, path):
            if line.strip():
                return line
    raise UserError(f"{path}: the file is empty; put the data in it")


def _delimited(path: str, records: Callable[[], Iterator[tuple[int, list[str]]]]) -> Table:
    columns = [name.strip() for name in next(records())[1]]

    def select(names: Sequence[str]) -> Iterator[Record]:
        positions = [columns.index(name) for name in names]
        body = records()
        next(body)
        for number, fields in body:
            if len(fields) != len(columns):
                raise UserError(
                    f"{path}, line {number}: {len(fields)} fields, but the header has {len(columns)}"
                    f" ({quoted(columns)}); put texts that contain separators in double quotes"
                )
            yield number, tuple(fields[position] for position in positions)

    return Table(path, "line", columns, select)


def _plain_records(path: str) -> Iterator[tuple[int, list[str]]]:
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, path):
            if line := stripped(line):
                yield number, [_unquoted(field) for field in line.split("\t")]


def _unquoted(field: str) -> str:
    """Remove the quotes that a csv writer added around a field."""
    written = QUOTED.fullmatch(field)
    return written[1].replace('""', '"') if written else field


def _quoted_records(path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """RFC 4180 records, numbered by their first line; blank lines are skipped."""
    csv.field_size_limit(2**31 - 1)
    number = 0
    with open_bytes(path) as stream:

        def feed() -> Iterator[str]:
            nonlocal number
            for position, line in numbered_lines(stream, path):
                number = position
                yield line

        reader = csv.reader(feed(), delimiter=delimiter, strict=True)
        while True:
            start = number + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise UserError(
                    f"{path}, line {start}: malformed row ({error}); in a quoted text, write a quote twice"
                ) from None
            if fields:
                yield start, fields


def _open_jsonl(path: str) -> Table:
    first = next(_objects(path), None)
    if first is None:
        raise UserError(f"{path}: the file is empty; put the data in it")

    def select(names: Sequence[str]) -> Iterator[Record]:
        for number, row in _objects(path):
            missing = [name for name in names if name not in row]
            if missing:
                raise UserError(
                    f"{path}, line {number}: there is no {missing[0]!r}, only {quoted(row)}; every row needs it"
                )
            yield number, tuple(row[name] for name in names)

    return Table(path, "line", list(first[1]), select)


def _objects(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, path):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError as error:
                raise UserError(
                    f"{path}, line {number}: malformed json ({error}); write one complete object per line"
                ) from None
            if not isinstance(row, dict):
                raise UserError(f'{path}, line {number}: not an object such as {{"text": "...", "label": "..."}}')
            yield number, row


def _open_parquet(path: str) -> Table:
    with _parquet(path) as file:
        columns = list(file.schema_arrow.names)

    def select(names: Sequence[str]) -> Iterator[Record]:
        start = 0
        with _parquet(path) as file, _parquet_errors(path):
            for batch in file.iter_batches(batch_size=4096, columns=list(names)):
                values = [_values(batch.column(name), path, start) for name in names]
                yield from enumerate(zip(*values, strict=True), start=start + 1)
                start += len(batch)

    return Table(path, "row", columns, select)


def _parquet(path: str) -> pq.ParquetFile:
    with open_bytes(path) as stream, gzip_errors(path):
        compressed = isinstance(getattr(stream, "raw", None), gzip.GzipFile)
        source = pa.BufferReader(stream.read()) if compressed else path
    with _parquet_errors(path):
        return pq.ParquetFile(source)


@contextmanager
def _parquet_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = first_line(error)
        raise UserError(f"{path}: not a parquet file, or a damaged one ({reason}); create it again") from None


def _values(column: pa.Array, path: str, start: int) -> list[Any]:
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        for number, value in enumerate(column, start=start + 1):
            try:
                value.as_py()
            except UnicodeDecodeError as error:
                raise UserError(f"{path}, row {number}: not UTF-8 ({error.reason}); create the file again") from None
        raise
