"""A folder of prepared data: one Arrow file per split, the tokenizer, and `entry.json`, which describes them."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import tokenizers
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from ..core.files import checksum
from ..core.json_files import read_json
from ..core.private import dataset_fingerprint
from .data import DataReport, PairFacts, SplitFacts, TextData
from .options import SPLITS, Split
from .stored import TEXT, Column, mapped_table

if TYPE_CHECKING:
    from datasets import Dataset

FORMAT = 1
ENTRY, TOKENIZER = "entry.json", "tokenizer"
VERSIONS = {"format": str(FORMAT), "tokenizers": tokenizers.__version__}
FACTS = {kind.__name__: kind for kind in (SplitFacts, PairFacts)}


class Unusable(Exception):
    """The entry must be prepared again; the message is the reason."""


@dataclass(frozen=True)
class Stored:
    """A split: columns, `datasets` fingerprint, number of rows, and the class and fields of its statistics."""

    columns: list[str]
    fingerprint: str
    rows: int
    kind: str
    facts: dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """The content of `entry.json`.

    Args:
        versions: Versions of the format and of the libraries that affect the result.
        content: The settings, and the sha256 of each source file.
        names: The name of each split in the report.
        labels: Names of the model's outputs.
        tokenizer: The sha256 of the tokenizer.
        report: The fields of the report, without its splits.
        splits: The stored splits.
        sums: The sha256 of each file in the folder.
    """

    versions: dict[str, str]
    content: dict[str, Any]
    names: dict[str, str]
    labels: list[str]
    tokenizer: str
    report: dict[str, Any]
    splits: dict[str, Stored] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)


def write_entry(folder: Path, data: TextData, content: Mapping[str, Any], names: Mapping[Split, str]) -> Entry:
    """Store the data in the folder they were prepared in, write `entry.json`, and remove temporary files."""
    splits: dict[str, Stored] = {}
    for split in SPLITS:
        rows = data.split(split)
        if rows is not None:
            facts = data.report.splits[split]
            _store(rows, data.texts(split), folder / f"{split}.arrow")
            kind, fingerprint = type(facts).__name__, dataset_fingerprint(rows)
            splits[split] = Stored(rows.column_names, fingerprint, len(rows), kind, asdict(facts))
    for path in folder.glob("[0-9]*.arrow"):
        path.unlink()
    data.tokenizer.save_pretrained(str(folder / TOKENIZER))
    report = {name: value for name, value in vars(data.report).items() if name != "splits"}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    sums = {str(path.relative_to(folder)): checksum(path) for path in files}
    digest = tokenizer_digest(data.tokenizer)
    entry = Entry(VERSIONS, dict(content), {**names}, data.labels, digest, report, splits, sums)
    (folder / ENTRY).write_text(json.dumps(asdict(entry), indent=1) + "\n", encoding="utf-8")
    return entry


def read_entry(folder: Path) -> Entry:
    """Read `entry.json`; raise `Unusable` if it was written by another version."""
    try:
        entry = read_json(folder / ENTRY, Entry)
    except UserError as error:
        raise Unusable(f"{error}") from None
    if entry.versions != VERSIONS:
        raise Unusable(f"{folder} was prepared by another version")
    return entry


def check_files(folder: Path, entry: Entry) -> None:
    """Raise `Unusable` if a file is missing or has changed."""
    for name, expected in entry.sums.items():
        path = folder / name
        if not path.is_file() or path.is_symlink() or checksum(path) != expected:
            raise Unusable(f"{path} is damaged or missing")


def open_entry(folder: Path, entry: Entry) -> TextData:
    """Open the data, memory-mapped."""
    from datasets import Dataset

    report, originals = DataReport(**entry.report), {}
    found: dict[Split, Dataset | None] = dict.fromkeys(SPLITS)
    for split in SPLITS:
        stored = entry.splits.get(split)
        if stored is not None:
            table = mapped_table(folder / f"{split}.arrow")
            found[split] = Dataset(table.select(stored.columns), fingerprint=stored.fingerprint)
            report.splits[split] = FACTS[stored.kind](**stored.facts)
            if TEXT in table.column_names:
                originals[split] = _texts(table.table[TEXT])
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / TOKENIZER)
    return TextData(**found, labels=entry.labels, tokenizer=tokenizer, report=report, originals=originals)


def _texts(column: pa.ChunkedArray) -> Column:
    """The texts of a split; a window that continues a text has none."""
    found = Column.of(column)
    return found.select(np.flatnonzero(column.is_valid().to_numpy())) if column.null_count else found


def tokenizer_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """The sha256 of everything that affects tokenization."""
    flags = [tokenizer.init_kwargs.get(name) for name in ("unit", "pairs")]
    return hashlib.sha256(f"{tokenizer.backend_tokenizer.to_str()}{flags}".encode()).hexdigest()


def _store(rows: "Dataset", texts: Any, path: Path) -> None:
    """Rename the file of the rows if they are in a single file of this folder; otherwise write a new file."""
    backing = {Path(file["filename"]) for file in rows.cache_files}
    if len(backing) == 1 and (file := backing.pop()).parent == path.parent:
        os.replace(file, path)
        return
    table = rows.data.table
    if texts is not None:
        table = table.append_column(TEXT, pa.array(texts, pa.large_string()))
    with open(path, "xb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
