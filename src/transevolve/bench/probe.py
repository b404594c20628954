"""Peak memory of one step above its model, measured in its own process.

The baseline is taken after the model was built and has made one tiny step, so it includes weights, optimizer state and
libraries. The peak is what a step of the cell's size adds: activations, gradients and temporaries.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass

from ..core.machine import cpu_threads, limit_allocations
from ..core.peak_memory import ALLOCATOR, peak_memory
from .cell import Cell, load, random_inputs
from .rounds import failure
from .systems import parse_spec

TINY = 8


@dataclass(frozen=True)
class Peak:
    """Bytes above the baseline and how they were counted, or why there is no number."""

    bytes: int | None
    counted_by: str | None
    parameters: int | None
    features: int | None
    error: str | None


def peak_of(cell: Cell) -> Peak:
    """The peak, measured in a new process."""
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
    """The peak, measured in this process."""
    parameters = features = None
    try:
        with limit_allocations(), cpu_threads(cell.threads):
            work = load(cell, parse_spec(cell.system, cell.size))
            parameters, features = work.parameters, work.features
            tiny = min(TINY, cell.length)
            work.step(random_inputs(cell, 1, tiny))
            inputs = random_inputs(cell, cell.batch, cell.length)
            with peak_memory(cell.device) as read:
                work.step(inputs)
            count, counted_by = read()
    except (RuntimeError, MemoryError, ValueError) as error:
        return Peak(None, None, parameters, features, failure(error))
    return Peak(count, counted_by, parameters, features, None)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Cell(**json.load(sys.stdin))))))
