"""Texts without labels, streamed from files or folders."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import UserError, quoted
from .files import SPLIT_NAMES
from .options import DataOptions, Split
from .shards import existing, file_names
from .stored import progress
from .stream import iter_texts
from .tables import table_format
from .unlabelled import text_files

PLAIN = (".txt", ".text")


def corpus_files(options: DataOptions) -> dict[Split, list[Path]]:
    """The files of each split. In a folder, all files not named validation or test are for training."""
    found: dict[Split, list[Path]] = {}
    if options.path is not None:
        path = existing(options.path, "path")
        if path.is_dir():
            spelled: dict[str, Split] = {name: split for split, names in SPLIT_NAMES.items() for name in names}
            for file in _text_files(path):
                found.setdefault(spelled.get(file.name.split(".")[0].lower(), "train"), []).append(file)
        else:
            found["train"] = [path]
    others: dict[Split, Any] = {"validation": options.validation, "test": options.test}
    for split, named in others.items():
        if isinstance(named, str):
            path = existing(named, split)
            found[split] = _text_files(path) if path.is_dir() else [path]
    return found


def _text_files(folder: Path) -> list[Path]:
    files = text_files(folder)
    fitting = [file for file in files if table_format(file) or {*PLAIN} & {*file.suffixes}]
    if not fitting:
        available = quoted(file.name for file in files) or "no file"
        raise UserError(
            f"{folder}: there is no file of texts; looked for .txt, .csv, .tsv, .jsonl and .parquet (plain or .gz),"
            f" found {available}"
        )
    return fitting


class Corpus:
    """The texts of some files, read again at every iteration; texts of only white space are skipped.

    `kept` is a mask of the texts in this corpus, None for all texts; `size` is their length in characters.
    """

    def __init__(
        self, files: list[Path], column: str | None, kept: np.ndarray | None = None, origin: str = "", size: int = 0
    ):
        self.files, self.column, self.kept, self.size = files, column, kept, size
        self.origin = origin or file_names(files)
        self.count = self._measure() if kept is None else int(kept.sum())
        if not self.count:
            raise UserError(f"{self.origin}: there is no text in it; name files with text, one per line or row")

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return (text for _, text in self.numbered())

    def numbered(self) -> Iterator[tuple[str, str]]:
        """Yield (location, text)."""
        if self.kept is None:
            return self._all()
        return (item for item, kept in zip(self._all(), self.kept, strict=False) if kept)

    def nbytes(self) -> int:
        return self.size

    def select(self, rows: np.ndarray, origin: str = "") -> "Corpus":
        """The texts with these indices; their size is estimated from the average."""
        positions = np.arange(self.count) if self.kept is None else np.flatnonzero(self.kept)
        kept = np.zeros(self.count if self.kept is None else len(self.kept), dtype=bool)
        kept[positions[rows]] = True
        return Corpus(self.files, self.column, kept, origin, self.size * len(rows) // self.count)

    def _measure(self) -> int:
        """Count the texts and their characters."""
        count = 0
        with progress(f"reading {self.origin}", None) as advance:
            for _, text in self._all():
                count += 1
                self.size += len(text)
                advance(1)
        return count

    def _all(self) -> Iterator[tuple[str, str]]:
        for file in self.files:
            column = self.column if table_format(file) is not None else None
            for number, text in iter_texts(file, column):
                if text.strip():
                    yield f"{file}, line {number}", text
