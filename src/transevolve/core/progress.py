"""Progress bars on standard error for terminals and notebooks; periodic lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol, Self

from .messages import say

SECONDS_BETWEEN_LINES = 30.0


class Bar:
    """Progress of a task, with its rate and, if the total is known, the remaining time.

    Args:
        title: Name of the task.
        total: Number of units, if known.
        unit: Plural name of the unit, such as "rows".
        initial: Units done before.
        lines: Print lines if there is no terminal or notebook.
    """

    def __init__(self, title: str, total: int | None, unit: str, initial: int = 0, lines: bool = True):
        self.title, self.total, self.unit, self.lines = title, total, unit, lines
        self.done = self.first = initial
        self.status = ""
        self.started = self.shown = time.perf_counter()
        self.bar = _bar(title, total, unit, initial)

    def update(self, count: int = 1) -> None:
        self.done += count
        if self.bar is not None:
            self.bar.set_postfix_str(self.status, refresh=False)
            self.bar.update(count)
        elif self.lines and time.perf_counter() - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = time.perf_counter()
            say(self.line())

    def line(self) -> str:
        seconds, done = time.perf_counter() - self.started, max(self.done - self.first, 1)
        of, left = "", ""
        if self.total is not None:
            of, left = f"/{self.total:,}", f", {clock(seconds / done * (self.total - self.done))} left"
        status = f", {self.status}" if self.status else ""
        return f"{self.title}: {self.done:,}{of} {self.unit}, {done / max(seconds, 1e-9):,.1f}/s{status}{left}"

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        if self.bar is None:
            say(text)
        else:
            self.bar.write(text, file=sys.stderr)

    def print(self, text: str) -> None:
        """Prints a result to standard output, above the bar if both are on the terminal."""
        if self.bar is not None and sys.stdout.isatty():
            self.bar.write(text, file=sys.stdout)
        else:
            print(text)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Advancing(Protocol):
    """Calls `advance` with the number of items done."""

    advance: Callable[[int], Any]


@contextmanager
def progress_of(work: Advancing, title: str, total: int | None, unit: str) -> Iterator[Bar]:
    """Shows a progress bar of the items that `work` does in the block."""
    with Bar(title, total, unit) as bar:
        before, work.advance = work.advance, bar.update
        try:
            yield bar
        finally:
            work.advance = before


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def can_show_bar() -> bool:
    """Whether a progress bar is visible: standard error is a terminal or a notebook."""
    return in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and type(found).__name__ == "ZMQInteractiveShell"


def _bar(title: str, total: int | None, unit: str, initial: int) -> Any:
    """Returns a tqdm bar, or None if it would not be visible."""
    if not can_show_bar():
        return None
    if in_notebook() and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm
    return tqdm(desc=title, total=total, unit=f" {unit}", initial=initial, leave=False, dynamic_ncols=True)
