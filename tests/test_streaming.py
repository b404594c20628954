"""Pipes are answered while they stay open."""

import select
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from training_support import PATIENCE, process
from transevolve.core.windows import windows

RUNS = Path(__file__).parent / "version_one"


def answer(running: subprocess.Popen, line: str) -> str:
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(line + "\n")
    running.stdin.flush()
    ready, _, _ = select.select([running.stdout], [], [], PATIENCE)
    assert ready, "no answer"
    return running.stdout.readline()


@pytest.mark.parametrize(
    ("command", "run"), [("predict", "classifier"), pytest.param("translate", "translator", marks=pytest.mark.slow)]
)
def test_a_line_is_answered_while_the_pipe_stays_open(command, run):
    running = process([command, str(RUNS / run)], stdin=subprocess.PIPE)
    with running:
        first, second = answer(running, "a great film"), answer(running, "a great film")
        assert first
        assert first == second
        running.send_signal(signal.SIGINT)
        _, reported = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert reported.splitlines()[-1] == "transevolve: stopped"


def test_a_window_leaves_when_it_is_full_or_its_input_pauses():
    more = threading.Event()

    def items():
        yield from range(5)
        more.wait(60)
        yield 5
        raise ValueError("damaged")

    found = windows(items(), 3, pause=0.05)
    assert next(found) == [0, 1, 2]
    assert next(found) == [3, 4]
    more.set()
    assert next(found) == [5]
    with pytest.raises(ValueError, match="damaged"):
        next(found)


def test_a_steady_trickle_does_not_delay_its_first_item():
    def items():
        for number in range(60):
            yield number
            time.sleep(0.01)

    first = next(windows(items(), 1000, pause=5.0, longest=0.1))
    assert first[0] == 0
    assert len(first) < 30


@pytest.mark.parametrize("pause", [None, 0.05])
def test_windows_contain_every_item_once_with_limited_lookahead(pause):
    read = []

    def items():
        for number in range(10):
            read.append(number)
            yield number

    found = windows(items(), 2, pause)
    assert next(found) == [0, 1]
    time.sleep(0.1)
    assert len(read) <= 5
    assert [number for window in found for number in window] == list(range(2, 10))
