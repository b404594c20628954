"""Times systems interleaved, one step each per round, so that other load affects all of them equally."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from ..core.devices import synchronize
from ..core.messages import say
from .results import Row

T = TypeVar("T")


@dataclass(frozen=True)
class Lane:
    """A row and the step that is timed for it, `repeats` times."""

    row: Row
    step: Callable[[], object]
    repeats: int


def missing_repeats(row: Row, repeats: int) -> int:
    return 0 if row.note is not None else max(0, repeats - len(row.seconds))


def run_rounds(lanes: list[Lane], device: str, after_round: Callable[[], None]) -> None:
    """Times every lane once per round, each round starting one lane further; earlier rounds are not repeated."""
    rounds = max((lane.repeats for lane in lanes), default=0)
    for turn in range(rounds):
        start = turn % len(lanes)
        waiting = [
            lane
            for lane in lanes[start:] + lanes[:start]
            if len(lane.row.seconds) <= turn and missing_repeats(lane.row, lane.repeats)
        ]
        for lane in waiting:
            attempt(lane.row, lambda lane=lane: _time(lane, device))
        if waiting:
            after_round()
            say(f"length {lanes[0].row.length}: round {turn + 1} of {rounds}")


def attempt(row: Row, action: Callable[[], T]) -> T | None:
    """Run the action; if it fails, store the reason in the row and continue."""
    try:
        return action()
    except Exception as error:
        row.note = failure(error)
        return None


def failure(error: Exception) -> str:
    """The note for an error, such as out of memory."""
    message = " ".join(str(error).split())
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in message:
        return "does not fit in memory"
    return f"failed: {type(error).__name__}: {message[:200]}"


def _time(lane: Lane, device: str) -> None:
    gc.collect()
    synchronize(device)
    start, cpu = time.perf_counter(), time.process_time()
    lane.step()
    synchronize(device)
    lane.row.seconds.append(time.perf_counter() - start)
    lane.row.cpu_seconds.append(time.process_time() - cpu)
