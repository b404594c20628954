"""Data files in every format, valid and damaged, and simple readers of their contents."""

import contextlib
import csv
import gzip
import io
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hardening.streams import PIECES, damaged

FORMATS = ("csv", "tsv", "jsonl", "parquet", "txt")
COLUMNS = ("text", "label")
ENCODINGS = ("utf-16", "latin-1", "utf-8-sig", "cp1252", "utf-32")
ODD: list[Any] = [None, 1, -1.5, True, [], ["a"], {"a": 1}, float("nan"), float("inf"), 10**30, "", " ", "third"]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class File:
    """A file's name and bytes; `right` if it is valid in its format."""

    name: str
    content: bytes
    right: bool


def draw_rows(draw: random.Random) -> Rows:
    count = draw.choice([1, 2, 3, 6, 12])
    rows = [{"text": _text(draw), "label": draw.choice(["yes", "no"])} for _ in range(count)]
    for _ in range(draw.choice([0, 0, 1])):
        draw.choice(rows)[draw.choice(COLUMNS)] = draw.choice(ODD)
    return rows


def draw_file(draw: random.Random, formats: tuple[str, ...] = FORMATS) -> File:
    kind = draw.choice(formats)
    rows = draw_rows(draw)
    values = [value for row in rows for value in row.values()]
    plain = all(isinstance(value, str) and value.strip() and "\r" not in value for value in values)
    plain = plain and "third" not in values
    content, right = WRITERS[kind](draw, rows), plain and kind != "txt"
    if draw.random() < 0.6:
        content, right = draw.choice(HARMS)(draw, content), False
    name = f"data.{kind}"
    if draw.random() < 0.2:
        content, name = gzip.compress(content), name + draw.choice(["", ".gz", ".gzip"])
        if draw.random() < 0.3:
            content, right = damaged(draw, content), False
    if draw.random() < 0.05:
        name, right = f"data.{draw.choice([*FORMATS, 'xlsx', 'CSV', 'json', ''])}", False
    return File(name, content, right)


def _text(draw: random.Random) -> str:
    words = draw.choices(["great", "awful", "film", "the"], k=draw.randint(0, 4))
    odd = [] if draw.random() < 0.6 else [draw.choice(PIECES)]
    return " ".join([*words, *odd]) + draw.choice(["", "", "", ", and", ' "so"', "\n", "\t", "'"])


def _separated(delimiter: str) -> Callable[[random.Random, Rows], bytes]:
    def write(draw: random.Random, rows: Rows) -> bytes:
        columns = [*COLUMNS, *(["extra"] if draw.random() < 0.1 else [])]
        sink = io.StringIO(newline="")
        ends = draw.choice(["\n", "\r\n"])
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(sink, delimiter=delimiter, lineterminator=ends, quoting=quoting)
        writer.writerow(columns)
        writer.writerows([[row.get(column, "x") for column in columns] for row in rows])
        return sink.getvalue().encode()

    return write


def _write_jsonl(draw: random.Random, rows: Rows) -> bytes:
    escaped = draw.random() < 0.5
    return "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows).encode()


def _write_parquet(draw: random.Random, rows: Rows) -> bytes:
    sink = io.BytesIO()
    try:
        table = pa.Table.from_pylist(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        table = pa.Table.from_pylist([{key: str(value) for key, value in row.items()} for row in rows])
    pq.write_table(table, sink, compression=draw.choice(["none", "snappy", "gzip"]))
    return sink.getvalue()


def _write_lines(draw: random.Random, rows: Rows) -> bytes:
    return "".join(f"{row['text']}{draw.choice(['', chr(13)])}\n" for row in rows).encode()


WRITERS = {
    "csv": _separated(","),
    "tsv": _separated("\t"),
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "txt": _write_lines,
}


def _recoded(draw: random.Random, content: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode(draw.choice(ENCODINGS), "replace")


def _scarred(draw: random.Random, content: bytes) -> bytes:
    """Inserts bytes that are difficult for a format."""
    scar = draw.choice([b"\0", b'"', b"'", b",", b"\t", b"\r", b"\n", b"\n\n", b"\xff", b"{", b"}", b"\\", b"NaN"])
    place = draw.randint(0, len(content))
    return content[:place] + scar * draw.choice([1, 1, 3]) + content[place:]


def _shuffled(draw: random.Random, content: bytes) -> bytes:
    """Removes, duplicates or moves lines; also the header."""
    lines = content.splitlines(keepends=True)
    for _ in range(draw.choice([1, 2])):
        if lines:
            line = lines.pop(draw.randrange(len(lines)))
            for _ in range(draw.choice([0, 1, 2])):
                lines.insert(draw.randint(0, len(lines)), line)
    return b"".join(lines)


def _renamed(draw: random.Random, content: bytes) -> bytes:
    old = draw.choice([b"text", b"label"])
    return content.replace(old, draw.choice([b"", b"label", b"text", b"Text", b" text ", b"x", "été".encode()]), 1)


def _several(draw: random.Random, content: bytes) -> bytes:
    for _ in range(draw.randint(2, 5)):
        content = damaged(draw, content)
    return content


HARMS: list[Callable[[random.Random, bytes], bytes]] = [
    damaged,
    damaged,
    _several,
    _recoded,
    _scarred,
    _scarred,
    _shuffled,
    _renamed,
    lambda draw, content: b"",
    lambda draw, content: content * 2,
    lambda draw, content: draw.randbytes(draw.randint(0, 400)),
    lambda draw, content: content.replace(b"\n", b"\r"),
    lambda draw, content: gzip.compress(b"\0" * 200_000),
]


def naive_rows(file: File) -> Rows | None:
    """The contents according to a simple reader; None if there are none."""
    kind = next((kind for kind in FORMATS if f".{kind}" in file.name.lower().replace(".json", ".jsonl")), "txt")
    try:
        content = gzip.decompress(file.content) if file.content[:2] == b"\x1f\x8b" else file.content
        return READERS[kind](content)
    except (ValueError, OSError, EOFError, csv.Error, pa.ArrowException, gzip.zlib.error, KeyError, RecursionError):
        return None


def _read_separated(delimiters: str) -> Callable[[bytes], Rows]:
    def read(content: bytes) -> Rows:
        text = content.decode("utf-8-sig").lstrip("\r\n")
        header = next((line for line in text.split("\n") if line.strip()), "")
        delimiter = next((mark for mark in delimiters if mark in header), delimiters[0])
        lines = [line for line in text.split("\n") if line.strip("\r")]
        simple = delimiter == "\t" and len({line.count("\t") for line in lines}) == 1 and "\t" in header
        if simple:
            fields = [[_bare(field) for field in line.removesuffix("\r").split("\t")] for line in lines]
        else:
            fields = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
        columns = [name.strip() for name in fields[0]]
        return [dict(zip(columns, row, strict=True)) for row in fields[1:]]

    return read


def _bare(field: str) -> str:
    inner = field[1:-1]
    quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else field


def _read_jsonl(content: bytes) -> Rows:
    lines = content.decode("utf-8-sig").split("\n")
    return [dict(json.loads(line)) for line in lines if line.strip()]


def _read_parquet(content: bytes) -> Rows:
    """Column by column: one may be damaged and another not."""
    columns: dict[str, list[Any]] = {}
    for name in pq.read_schema(pa.BufferReader(content)).names:
        with contextlib.suppress(ValueError, OSError, pa.ArrowException):
            columns[name] = pq.read_table(pa.BufferReader(content), columns=[name]).column(0).to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _read_lines(content: bytes) -> Rows:
    lines = content.removeprefix(b"\xef\xbb\xbf").decode().split("\n")
    return [{"text": line.removesuffix("\r")} for line in (lines if lines[-1] else lines[:-1])]


READERS: dict[str, Callable[[bytes], Rows]] = {
    "csv": _read_separated(",;\t"),
    "tsv": _read_separated("\t"),
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
    "txt": _read_lines,
}


def texts_of(rows: Rows) -> set[tuple[str, ...]]:
    """The texts that each column could be, empty where there is none."""
    columns = dict.fromkeys(key for row in rows for key in row)
    return {tuple("" if row.get(c) is None else str(row.get(c)) for row in rows) for c in columns}


def is_label(value: Any) -> bool:
    return value is not None and str(value).strip() != "" and not (isinstance(value, float) and math.isnan(value))
