"""Progress: a bar on a terminal, lines elsewhere, and a message when input is expected."""

import contextlib
import io
import sys
from collections.abc import Iterator

import pytest

from training_support import training_of, write_csv
from transevolve.cli import main
from transevolve.core import progress
from transevolve.core.progress import Bar, clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Keyboard:
    """Standard input that is a terminal."""

    def __init__(self, typed: bytes):
        self.buffer = io.BytesIO(typed)

    def fileno(self) -> int:
        raise io.UnsupportedOperation

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def on_terminal() -> Iterator[Terminal]:
    """Replaces standard error in the block; pytest sets its own when a test begins."""
    with contextlib.redirect_stderr(Terminal()) as found:
        yield found


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("progress")
    write_csv(folder / "my.csv", rows=60)
    assert main(["train", *training_of(folder / "my.csv", folder / "run", "--training.epochs=1")]) == 0
    return folder


def test_a_bar_counts_on_a_terminal():
    with on_terminal() as terminal, Bar("reading", 10, "rows") as bar:
        bar.status = "loss 1"
        bar.update(10)
        bar.say("a remark")
    shown = terminal.getvalue()
    assert "reading" in shown
    assert "10/10" in shown
    assert "a remark\n" in shown


def test_elsewhere_there_are_lines_with_the_time_left(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    with Bar("reading", 4, "rows") as bar:
        bar.update()
        bar.update()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("reading: 1/4 rows, ")
    assert lines[1].endswith(" left")


@pytest.mark.parametrize(("seconds", "shown"), [(59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")])
def test_a_clock(seconds, shown):
    assert clock(seconds) == shown


@pytest.mark.parametrize("words", [["predict", "--file", "{data}"], ["evaluate", "--split", "validation"]], ids=str)
def test_commands_show_a_bar_on_a_terminal(words, run, capsys):
    command, *rest = (word.format(data=run / "my.csv") for word in words)
    with on_terminal() as terminal:
        assert main([command, str(run / "run"), *rest]) == 0
    assert "/6" in terminal.getvalue()
    assert capsys.readouterr().out


def test_predict_prompts_for_input_and_answers_line_by_line(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Keyboard(b"a lovely film\na poor one\n"))
    assert main(["predict", str(run / "run")]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("reading texts from standard input, one per line; Ctrl-D ends")
    assert len(shown.out.splitlines()) == 2
