"""Reads texts and prints predictions, for `predict`, `translate` and `generate`."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from ..core.errors import UserError
from ..core.messages import say
from ..core.progress import Bar, can_show_bar

PAUSE = 0.05


class Source(Protocol):
    """The options for the source of texts."""

    @property
    def texts(self) -> list[str]: ...
    @property
    def file(self) -> str | None: ...
    @property
    def column(self) -> list[str] | str | None: ...


class PrintOptions(Source, Protocol):
    @property
    def json(self) -> bool: ...


class Answer(Protocol):
    def line(self) -> str: ...
    def as_dict(self) -> dict[str, Any]: ...


class Model(Protocol):
    """Predicts a window of (line number, text)."""

    @property
    def truncated(self) -> int: ...
    @property
    def max_length(self) -> int: ...
    @property
    def columns(self) -> list[str] | None: ...
    @property
    def answer(self) -> Callable[..., Sequence[Answer]]: ...
    @property
    def progress(self) -> Callable[..., AbstractContextManager[Bar | None]]: ...


@dataclass(frozen=True)
class Texts:
    """The texts with their numbers, and the name of their source for error messages.

    After `pause` seconds without a new text, those read so far are predicted; None waits for full windows.
    `interactive` is whether texts are typed in a terminal.
    """

    numbered: Iterator[tuple[int, str]]
    source: str
    pause: float | None = None
    interactive: bool = False


def check_source(options: Source, what: str) -> None:
    if options.texts and options.file:
        raise UserError(f"{what} come both as arguments and from --file: choose one")
    if options.column and not options.file:
        raise UserError("--column names a column of --file, which is not set")


def open_texts(options: Source, columns: list[str] | str | None = None) -> Texts:
    """`columns` are those of the training table, for a model of pairs."""
    from ..data.stream import iter_texts

    if options.texts:
        return Texts(iter(list(enumerate(options.texts, start=1))), "arguments")
    if options.file:
        return Texts(iter_texts(options.file, options.column or columns), options.file)
    if sys.stdin is None:
        raise UserError("standard input is closed: give texts as arguments, or --file")
    return Texts(iter_texts(_own_input()), "standard input", PAUSE, sys.stdin.isatty())


def _own_input() -> BinaryIO:
    """Standard input as a separate file object; a thread that waits for `sys.stdin` would block Python's exit."""
    try:
        return open(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:
        return sys.stdin.buffer


@contextmanager
def output() -> Iterator[None]:
    """Ignore that the reader of standard output, such as `head`, closes it early."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _progress(model: Model, options: Source, what: str, texts: Texts) -> AbstractContextManager[Bar | None]:
    """A progress bar for files and pipes."""
    from ..data.stream import iter_texts

    if options.texts or texts.interactive:
        return nullcontext()
    # Counting takes far less time than predicting.
    total = (
        sum(1 for _ in iter_texts(options.file, options.column or model.columns))
        if options.file and can_show_bar()
        else None
    )
    return model.progress(what, total, what)


def print_predictions(model: Model, options: PrintOptions, what: str, window: int, **more: Any) -> None:
    """Print a line or a JSON object per text, as soon as a window is full or standard input pauses.

    Progress is shown on standard error.
    """
    from ..core.windows import windows

    texts = open_texts(options, model.columns)
    if texts.interactive:
        say(f"reading {what} from standard input, one per line; Ctrl-D ends, --help shows other sources")
    with output(), _progress(model, options, what, texts) as bar:
        for items in windows(texts.numbered, window, texts.pause):
            for found in model.answer(items, texts.source, **more):
                line = json.dumps(found.as_dict(), ensure_ascii=False) if options.json else found.line()
                print(line) if bar is None else bar.print(line)
            sys.stdout.flush()
    if model.truncated:
        say(f"{model.truncated:,} {what} were longer than {model.max_length:,} tokens and were cut")
