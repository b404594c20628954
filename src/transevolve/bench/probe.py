"""The peak memory of one step above its model, measured in a process of its own.

The baseline is taken after the model is built and has made one tiny step, so that it holds weights, optimiser state and
libraries; the peak is what a step of the cell's size adds: activations, gradients and temporaries.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch

from .cell import Cell, load, random_inputs, why_failed
from .machine import allocations_that_fail, cpu_threads, process_status
from .systems import parse_spec

TINY = 8
CLEAR_REFS = Path("/proc/self/clear_refs")
# Freed tensors go back to the system at once, so that the peak does not depend on what the allocator kept.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}


@dataclass(frozen=True)
class Peak:
    """Bytes above the baseline and how they were counted; or why there is no number."""

    bytes: int | None
    counted_by: str | None
    parameters: int | None
    features: int | None
    error: str | None


def peak_of(cell: Cell) -> Peak:
    """Starts a process that makes one step of the cell."""
    done = subprocess.run(
        [sys.executable, "-m", "transevolve.bench.probe"],
        input=json.dumps(asdict(cell)),
        capture_output=True,
        text=True,
        env={**os.environ, **ALLOCATOR},
        check=False,
    )
    if done.returncode == 0:
        return Peak(**json.loads(done.stdout.splitlines()[-1]))
    if done.returncode == -signal.SIGKILL:
        return Peak(None, None, None, None, "does not fit in memory: the system killed the process")
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return Peak(None, None, None, None, f"failed: exit code {done.returncode}: {last}")


def measure(cell: Cell) -> Peak:
    """The peak, in this process."""
    parameters = features = None
    try:
        with allocations_that_fail(), cpu_threads(cell.threads):
            work = load(cell, parse_spec(cell.system, cell.size))
            parameters, features = work.parameters, work.features
            tiny = min(TINY, cell.length)
            work.step(random_inputs(cell, 1, tiny))
            inputs = random_inputs(cell, cell.batch, cell.length)
            with _peak(cell.device) as read:
                work.step(inputs)
            count, counted_by = read()
    except (RuntimeError, MemoryError, ValueError) as error:
        return Peak(None, None, parameters, features, why_failed(error))
    return Peak(count, counted_by, parameters, features, None)


@contextmanager
def _peak(device: str) -> Iterator[Callable[[], tuple[int, str]]]:
    """Yields a function that, after the block, says how far memory rose in it."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        base = torch.cuda.memory_allocated(device)
        yield lambda: (torch.cuda.max_memory_allocated(device) - base, "torch.cuda.max_memory_allocated")
    elif _high_water_mark_reset():
        base = process_status("VmRSS")
        yield lambda: (max(process_status("VmHWM") - base, 0), "VmHWM")
    else:
        with _sampled_peak() as read:
            yield read


def _high_water_mark_reset() -> bool:
    """Whether Linux has set VmHWM back to the present size."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError:
        return False
    return True


@contextmanager
def _sampled_peak() -> Iterator[Callable[[], tuple[int, str]]]:
    process, done = psutil.Process(), threading.Event()
    base = process.memory_info().rss
    highest = [base]

    def watch() -> None:
        while not done.wait(0.001):
            highest[0] = max(highest[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: (highest[0] - base, "sampled every millisecond")
    finally:
        done.set()
        watcher.join()


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Cell(**json.load(sys.stdin))))))
