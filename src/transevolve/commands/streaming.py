"""Texts in, lines out: what `predict` and `translate` share."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ..core.errors import UserError


class Source(Protocol):
    """The options that say where texts come from."""

    @property
    def texts(self) -> list[str]: ...
    @property
    def file(self) -> str | None: ...
    @property
    def column(self) -> str | None: ...


@dataclass(frozen=True)
class Texts:
    """(number, text) for each text, what to call their source in errors, and whether somebody waits for each answer."""

    numbered: Iterator[tuple[int, str]]
    source: str
    interactive: bool = False


def check_source(options: Source, what: str) -> None:
    if options.texts and options.file:
        raise UserError(f"{what} are given both as arguments and by --file: choose one")
    if options.column and not options.file:
        raise UserError("--column names a column of --file, which is not given")


def open_texts(options: Source) -> Texts:
    from ..data import iter_texts

    if options.texts:
        return Texts(iter(list(enumerate(options.texts, start=1))), "arguments")
    if options.file:
        return Texts(iter_texts(options.file, options.column), options.file)
    if sys.stdin is None:
        raise UserError("standard input is closed: give texts as arguments, or --file")
    return Texts(iter_texts(sys.stdin.buffer), "standard input", sys.stdin.isatty())


@contextmanager
def output() -> Iterator[None]:
    """Standard output that its reader may close early, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_truncated(count: int, what: str, max_length: int) -> None:
    if count:
        print(f"{count:,} {what} were longer than {max_length:,} tokens and were cut", file=sys.stderr)
