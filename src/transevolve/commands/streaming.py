"""Texts in, lines out: what `predict` and `translate` share."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import UserError
from ..core.messages import say
from ..core.progress import Bar, watched

if TYPE_CHECKING:
    from ..inference import LoadedRun


class Source(Protocol):
    """The options that say where texts come from."""

    @property
    def texts(self) -> list[str]: ...
    @property
    def file(self) -> str | None: ...
    @property
    def column(self) -> str | None: ...


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


def _progress(model: "LoadedRun", options: Source, what: str, texts: Texts) -> AbstractContextManager[Bar | None]:
    """A bar for a file or a pipe; what is typed or given as arguments needs none."""
    from ..data import iter_texts

    if options.texts or texts.interactive:
        return nullcontext()
    # Counting takes far less time than predicting.
    total = sum(1 for _ in iter_texts(options.file, options.column)) if options.file and watched() else None
    return model.progress(what, total, what)


def print_predictions(model: "LoadedRun", options: PrintOptions, what: str, window: int, **more: Any) -> None:
    """A line for each text, or a JSON object, with progress on standard error."""
    texts = open_texts(options)
    if texts.interactive:
        say(f"reading {what} from standard input, one per line; Ctrl-D ends, --help shows other sources")
        window = 1
    with output(), _progress(model, options, what, texts) as bar:
        for found in model.stream(texts.numbered, texts.source, window, **more):
            line = json.dumps(found.as_dict(), ensure_ascii=False) if options.json else found.line()
            print(line) if bar is None else bar.print(line)
            if texts.interactive:
                sys.stdout.flush()
    session = model.session
    if session.truncated:
        note = f"{session.truncated:,} {what} were longer than {session.max_length:,} tokens and were cut"
        print(note, file=sys.stderr)
