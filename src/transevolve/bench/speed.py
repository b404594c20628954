"""How fast systems are: interleaved repeat by repeat, so that whatever else the machine does hits all alike."""

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from ..core.machine import allocations_that_fail, commit, cpu_threads, load_average
from .budget import planned_row
from .cell import Cell, load, random_inputs, why_failed
from .options import BenchOptions
from .results import Results, Row, open_results
from .systems import Spec

T = TypeVar("T")


@dataclass(frozen=True)
class SpeedOptions(BenchOptions):
    """How fast systems are, side by side.

    Args:
        repeats: Measured steps a system and length.
        warmup: Steps before them that do not count.
    """

    repeats: int = 7
    warmup: int = 2

    def __post_init__(self):
        super().__post_init__()
        if self.repeats < 1 or self.warmup < 0:
            raise ValueError(f"--repeats must be at least 1 and --warmup 0, got {self.repeats} and {self.warmup}")


def measure_speed(options: SpeedOptions) -> Results:
    """Every length in turn; what an earlier run finished is not measured again."""
    specs = options.specs()
    results = open_results("speed", options)
    idle = (os.cpu_count() or 1) - (options.threads or torch.get_num_threads())
    if load_average() > idle + 0.5:
        print(f"this machine is busy (load {load_average():.1f}): expect a wide spread", file=sys.stderr)
    with cpu_threads(options.threads):
        for length in options.lengths:
            if results.finished(length):
                print(f"length {length}: already measured", file=sys.stderr)
                continue
            results.add(_measure_length(specs, options, length))
            gc.collect()
    return results


def _measure_length(specs: list[Spec], options: SpeedOptions, length: int) -> list[Row]:
    """Builds and warms up every system, then goes round them, starting each round one further."""
    stamp = commit()
    rows = [planned_row(spec, options, length, probe=False) for spec in specs]
    runnable = [(row, spec) for row, spec in zip(rows, specs, strict=True) if row.note is None]
    batches = ", ".join(f"{row.system} x{row.batch}" for row, _ in runnable)
    print(f"length {length}: {batches or 'nothing that fits'}", file=sys.stderr)
    lanes: list[tuple[Row, Callable[[], float]]] = []
    with allocations_that_fail():
        for row, spec in runnable:
            step = _attempt(row, partial(_warmed_up, row, spec, options))
            if step is not None:
                lanes.append((row, step))
        for turn in range(options.repeats):
            start = turn % max(len(lanes), 1)
            for lane in lanes[start:] + lanes[:start]:
                row, step = lane
                seconds = _attempt(row, step)
                if seconds is None:
                    lanes.remove(lane)
                else:
                    row.seconds.append(seconds)
    for row in rows:
        row.commit = stamp
    return rows


def _attempt(row: Row, action: Callable[[], T]) -> T | None:
    """The action's value; if it fails, the row says why and the others go on."""
    try:
        return action()
    except Exception as error:
        row.note = why_failed(error)
        return None


def _warmed_up(row: Row, spec: Spec, options: SpeedOptions) -> Callable[[], float]:
    """A function that makes one step and returns its seconds."""
    assert row.batch is not None
    cell = Cell.of(spec, options, row.length, row.batch)
    work, inputs = load(cell, spec), random_inputs(cell, row.batch, row.length)
    row.parameters, row.features = work.parameters, work.features

    def timed() -> float:
        _synchronize(cell.device)
        start = time.perf_counter()
        work.step(inputs)
        _synchronize(cell.device)
        return time.perf_counter() - start

    for _ in range(options.warmup):
        timed()
    return timed


def _synchronize(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
