"""Sentences and their translations, read from two files line by line or from a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import UserError, nearest, quoted
from .rows import checked_text
from .shards import parts_of
from .stored import chosen, new_texts, reading
from .stream import iter_texts
from .tables import Table, table_format

NESTED = "translation"


@dataclass
class Pairs:
    """`targets[i]` translates `sources[i]`; `skipped` were left out because a side was empty."""

    origin: str
    sources: Sequence[str]
    targets: Sequence[str]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.sources)

    def where(self, index: int) -> str:
        return f"{self.origin}, pair {index + 1}"

    def select(self, indices: np.ndarray, origin: str, skipped: int = 0) -> "Pairs":
        return Pairs(origin, chosen(self.sources, indices), chosen(self.targets, indices), skipped)

    def empty(self) -> int:
        """How many pairs have a side without text."""
        return len(self) - len(self._complete())

    def without_empty(self) -> "Pairs":
        complete = self._complete()
        return self.select(complete, self.origin, len(self) - len(complete))

    def _complete(self) -> np.ndarray:
        both = zip(self.sources, self.targets, strict=True)
        full = (bool(source.strip() and target.strip()) for source, target in both)
        return np.flatnonzero(np.fromiter(full, dtype=bool, count=len(self)))


def read_pairs(source: str | Path, target: str | Path) -> Pairs:
    """Two files of as many lines, each with at least some text; or two folders of such files, read in order."""
    sources, targets = _lines(source), _lines(target)
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources):,} lines and {target} has {len(targets):,}:"
            " line by line, one must be the translation of the other"
        )
    return Pairs(f"{source} and {target}", sources, targets)


def table_pairs(table: Table, languages: Sequence[str]) -> Pairs:
    """The two languages of a table: columns, or entries of a column `translation`."""
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


def require_languages(source: str | None, target: str | None, there: Sequence[str], place: str) -> tuple[str, str]:
    """Both languages, if they are named, differ and are there."""
    for role, language in (("source", source), ("target", target)):
        if language is None:
            raise UserError(f"{place}: name the {role} language with data.{role}_lang; there are {quoted(there)}")
        if language not in there:
            hint = nearest(language, there)
            raise UserError(
                f"{place}: there is no language {language!r} (data.{role}_lang); there are {quoted(there)}{hint}"
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
            raise UserError(
                f"{file}: a table, where plain lines are needed; write one sentence per line into a text file"
            )
        with reading(str(file)) as advance:
            for _, text in iter_texts(file):
                lines.append(text)
                advance(1)
    _require_text(lines, str(path), "line")
    return lines


def _require_text(texts: Sequence[str], name: str, unit: str) -> None:
    if not texts:
        raise UserError(f"{name}: there is nothing in it; put one sentence in each {unit}")
    if not any(text.strip() for text in texts):
        raise UserError(f"{name}: all {len(texts):,} {unit}s are empty; put one sentence in each {unit}")
