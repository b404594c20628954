"""Sentence pairs, read from two aligned files or from a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import UserError, nearest, quoted
from .rows import checked_text
from .shards import parts_of
from .stored import new_texts, reading, select_rows
from .stream import iter_texts
from .tables import Table, table_format

NESTED = "translation"


@dataclass
class Pairs:
    """`targets[i]` is the translation of `sources[i]`; `skipped` pairs had an empty side."""

    origin: str
    sources: Sequence[str]
    targets: Sequence[str]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.sources)

    def where(self, index: int) -> str:
        return f"{self.origin}, pair {index + 1}"

    def select(self, indices: np.ndarray, origin: str, skipped: int = 0) -> "Pairs":
        return Pairs(origin, select_rows(self.sources, indices), select_rows(self.targets, indices), skipped)

    def empty(self) -> int:
        """The number of pairs with an empty side."""
        return len(self) - len(self._complete())

    def without_empty(self) -> "Pairs":
        complete = self._complete()
        return self.select(complete, self.origin, len(self) - len(complete))

    def _complete(self) -> np.ndarray:
        both = zip(self.sources, self.targets, strict=True)
        full = (bool(source.strip() and target.strip()) for source, target in both)
        return np.flatnonzero(np.fromiter(full, dtype=bool, count=len(self)))


def read_pairs(source: str | Path, target: str | Path) -> Pairs:
    """Read two aligned files, or two folders of such files in the order of their names."""
    sources, targets = _lines(source), _lines(target)
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}:"
            " each line must be the translation of the same line in the other file"
        )
    return Pairs(f"{source} and {target}", sources, targets)


def table_pairs(table: Table, languages: Sequence[str]) -> Pairs:
    """Read two languages from a table: two columns, or two entries of the column `translation`."""
    names = (NESTED,) if NESTED in table.columns else tuple(languages)
    sides = new_texts(), new_texts()
    with reading(table.file) as advance:
        for number, values in table.select(names):
            row = values if names != (NESTED,) else map((values[0] or {}).get, languages)
            for text, language, side in zip(row, languages, sides, strict=True):
                side.append(checked_text(text, table, number, language))
            advance(1)
    for language, side in zip(languages, sides, strict=True):
        _require_text(side, f"{table.file}, {language!r}", table.unit)
    return Pairs(table.file, *sides)


def table_languages(table: Table) -> list[str]:
    if NESTED not in table.columns:
        return table.columns
    first: dict[str, Any] = next((values[0] for _, values in table.select((NESTED,))), {})
    return list(first)


def require_languages(source: str | None, target: str | None, available: Sequence[str], origin: str) -> tuple[str, str]:
    """Both languages; raises an error unless they are named, available and different."""
    for role, language in (("source", source), ("target", target)):
        if language is None:
            raise UserError(f"{origin}: name the {role} language with data.{role}_lang; there are {quoted(available)}")
        if language not in available:
            hint = nearest(language, available)
            raise UserError(
                f"{origin}: there is no language {language!r} (data.{role}_lang); there are {quoted(available)}{hint}"
            )
    assert source is not None
    assert target is not None
    if source == target:
        raise UserError(f"data.source_lang and data.target_lang are both {source!r}: name two different languages")
    return source, target


def _lines(path: str | Path) -> Sequence[str]:
    lines = new_texts()
    for file in parts_of(Path(path)):
        if table_format(file) is not None:
            raise UserError(f"{file}: a table, but translation needs a text file with one sentence per line")
        with reading(str(file)) as advance:
            for _, text in iter_texts(file):
                lines.append(text)
                advance(1)
    _require_text(lines, str(path), "line")
    return lines


def _require_text(texts: Sequence[str], name: str, unit: str) -> None:
    if not texts:
        raise UserError(f"{name}: the file is empty; put one sentence in each {unit}")
    if not any(text.strip() for text in texts):
        raise UserError(f"{name}: all {len(texts):,} {unit}s are empty; put one sentence in each {unit}")
