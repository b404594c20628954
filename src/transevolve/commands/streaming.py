"""Texts in, lines out: what `predict` and `translate` share."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import UserError

if TYPE_CHECKING:
    from ..inference import LoadedRun


class Source(Protocol):
    """The options that say where texts come from."""

    @property
    def texts(self) -> list[str]: ...
    @property
    def file(self) -> str | None: ...
    @property
    def column(self) -> list[str] | str | None: ...


class PrintOptions(Source, Protocol):
    @property
    def json(self) -> bool: ...


@dataclass(frozen=True)
class Texts:
    """(number, text) for each text, the name of their source in errors, and whether each is answered at once."""

    numbered: Iterator[tuple[int, str]]
    source: str
    interactive: bool = False


def check_source(options: Source, what: str) -> None:
    if options.texts and options.file:
        raise UserError(f"{what} are given both as arguments and by --file: choose one")
    if options.column and not options.file:
        raise UserError("--column names a column of --file, which is not given")


def open_texts(options: Source, columns: list[str] | str | None = None) -> Texts:
    """`columns` are those of the training table, for a model of pairs."""
    from ..data import iter_texts

    if options.texts:
        return Texts(iter(list(enumerate(options.texts, start=1))), "arguments")
    if options.file:
        return Texts(iter_texts(options.file, options.column or columns), options.file)
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


def print_predictions(model: "LoadedRun", options: PrintOptions, what: str, window: int, **more: Any) -> None:
    """A line for each text, or a JSON object; in a file or pipe with progress on standard error."""
    trained = model.recipe.data.text
    texts = open_texts(options, trained if isinstance(trained, list) else None)
    window = 1 if texts.interactive else window
    started = time.perf_counter()
    with output():
        for done, found in enumerate(model.stream(texts.numbered, texts.source, window, **more), start=1):
            print(json.dumps(found.as_dict(), ensure_ascii=False) if options.json else found.line())
            if texts.interactive:
                sys.stdout.flush()
            elif done % window == 0:
                rate = done / max(time.perf_counter() - started, 1e-9)
                print(f"{done:,} {what}, {rate:,.0f} per second", file=sys.stderr, flush=True)
    session = model.session
    if session.truncated:
        note = f"{session.truncated:,} {what} were longer than {session.max_length:,} tokens and were cut"
        print(note, file=sys.stderr)
