"""Runs the program, in this process or in a separate one, and checks how it ended."""

import contextlib
import faulthandler
import io
import linecache
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import CycloptsError

from transevolve import cli
from transevolve.core.errors import UserError

SECONDS = 180
CAUGHT = "--debug shows where"
LEFTOVERS = ("**/.transevolve-*.tmp", "**/.partial*")


class Unacceptable(AssertionError):
    """Neither a right answer nor a clean error."""


class TooLong(BaseException):
    """Not an Exception, so that no handler of the program keeps it."""


@dataclass(frozen=True)
class Answer:
    """What a command returned; `message` is its one line of error, None if it succeeded."""

    code: int
    out: str
    err: str
    message: str | None

    @property
    def lines(self) -> list[str]:
        """Lines of standard output, ended by a line feed and nothing else."""
        return self.out.removesuffix("\n").split("\n") if self.out else []


Call = Callable[..., Answer]


def call(arguments: list[str], stdin: bytes = b"") -> Answer:
    """The command in this process. Raises `Unacceptable` unless it succeeds or fails as it should."""
    out, err = _writable("strict"), _writable("backslashreplace")
    caught: list[Exception] = []
    one_line = cli.one_line

    def remembered(error: Exception) -> str:
        caught.append(error)
        return one_line(error)

    standard_input = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with (
        _replaced(sys, "stdin", standard_input),
        _replaced(sys, "stdout", out),
        _replaced(sys, "stderr", err),
        _replaced(cli, "one_line", remembered),
        _time_limit(),
    ):
        try:
            code = cli.main(arguments)
        except (Exception, SystemExit) as error:
            raise Unacceptable(f"{type(error).__name__} escaped: {error}") from error
    for error in caught:
        _require_meant(error)
    return judged(code, _content(out), _content(err))


def call_process(arguments: list[str], stdin: bytes = b"") -> Answer:
    """The same in a separate process; arguments of a process cannot contain NUL."""
    done = subprocess.run(
        [sys.executable, "-m", "transevolve", *(word.replace("\0", "") for word in arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        timeout=2 * SECONDS,
        check=False,
    )
    return judged(done.returncode, done.stdout.decode(), done.stderr.decode())


def judged(code: int, out: str, err: str) -> Answer:
    errors = [line for line in err.split("\n") if line.startswith("transevolve: ")]
    if "Traceback (most recent" in err:
        raise Unacceptable(f"a traceback: {err[-2000:]}")
    if code == 0 and not errors:
        return Answer(code, out, err, None)
    if code != 2 or len(errors) != 1 or not err.endswith(f"{errors[0]}\n"):
        raise Unacceptable(f"exit code {code} with {len(errors)} lines of error: {err[-2000:]}")
    message = errors[0].removeprefix("transevolve: error: ")
    if CAUGHT in message:
        raise Unacceptable(f"an unexpected error: {message}")
    return Answer(code, out, err, message)


def empty_folder() -> None:
    """Removes everything that the previous input left."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def require_tidy(folder: Path) -> None:
    """No temporary files are left."""
    left = [str(path) for pattern in LEFTOVERS for path in folder.glob(pattern)]
    if left:
        raise Unacceptable(f"left behind: {left}")


def _require_meant(error: Exception) -> None:
    """The program raised the error itself, or the system names a file; anything else only happens to be one line."""
    if isinstance(error, UserError | CycloptsError) or (isinstance(error, OSError) and error.filename is not None):
        return
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    file, number = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    line = linecache.getline(file, number).strip()
    own = f"{os.sep}transevolve{os.sep}" in file
    if type(error) is not ValueError or not own or not line.startswith("raise"):
        raise Unacceptable(f"{type(error).__name__} by accident: {error} ({file}:{number}: {line})") from error


def _writable(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, newline="\n")


def _content(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    """Stops Python code after `SECONDS`, and the whole process if it hangs where signals do not reach."""

    def stop(number: int, frame: Any) -> None:
        raise TooLong(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    faulthandler.dump_traceback_later(3 * SECONDS, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    except TooLong as error:
        raise Unacceptable(str(error)) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
