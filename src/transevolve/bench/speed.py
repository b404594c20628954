"""Speed of one step: all systems at one length, interleaved."""

import gc
import os
from collections.abc import Callable

import torch

from ..core.machine import commit, cpu_threads, limit_allocations, load_average
from ..core.messages import say
from .budget import planned_row
from .cell import Cell, load, random_inputs
from .options import SpeedOptions
from .results import Results, Row, open_results
from .rounds import Lane, attempt, missing_repeats, run_rounds
from .systems import Spec


def measure_speed(options: SpeedOptions) -> Results:
    """Measures each length that an earlier run has not finished."""
    results = open_results("speed", options)
    warn_if_busy(options.threads)
    with cpu_threads(options.threads):
        for length in options.lengths:
            _measure_length(results, options, length)
            gc.collect()
    return results


def warn_if_busy(threads: int | None) -> None:
    idle = (os.cpu_count() or 1) - (threads or torch.get_num_threads())
    if load_average() > idle + 0.5:
        say(f"this machine is busy (load {load_average():.1f}): expect a wide spread")


def _measure_length(results: Results, options: SpeedOptions, length: int) -> None:
    specs = options.specs()
    found = [results.find(spec.text, length) for spec in specs]
    if all(row is not None and not missing_repeats(row, options.repeats) for row in found):
        say(f"length {length}: already measured")
        return
    rows = [row or planned_row(spec, options, length, probe=False) for row, spec in zip(found, specs, strict=True)]
    runnable = [(row, spec) for row, spec in zip(rows, specs, strict=True) if row.note is None]
    batches = ", ".join(f"{row.system} x{row.batch}" for row, _ in runnable)
    say(f"length {length}: {batches or 'nothing fits'}")
    results.rows = [row for row in results.rows if row.length != length] + rows
    with limit_allocations():
        lanes: list[Lane] = []
        for row, spec in runnable:
            step = attempt(row, lambda row=row, spec=spec: _warmed_up(row, spec, options))
            if step is not None:
                row.commit = commit()
                lanes.append(Lane(row, step, options.repeats))
        run_rounds(lanes, options.device, results.save)
    results.save()


def _warmed_up(row: Row, spec: Spec, options: SpeedOptions) -> Callable[[], None]:
    assert row.batch is not None
    cell = Cell.of(spec, options, row.length, row.batch)
    work, inputs = load(cell, spec), random_inputs(cell, row.batch, row.length)
    row.parameters, row.features = work.parameters, work.features
    for _ in range(options.warmup):
        work.step(inputs)
    return lambda: work.step(inputs)
