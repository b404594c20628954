"""How long OpenMP threads should spin: training steps by spin count, on a quiet machine and beside a busy process.

    python results/throughput/neighbour.py > results/throughput/neighbour.md

Two models, each on two threads: a short-text classifier (32 texts of 50 tokens, width 128, four depths) and a long one
(2 texts of 1,024 tokens, width 256, six depths). Each measurement is a process of its own; all are made in turns.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from statistics import median

SHORT, LONG = (32, 50, 128, 4), (2, 1024, 256, 6)
SETTINGS = {
    "libgomp's default": {},
    "GOMP_SPINCOUNT=100000": {"GOMP_SPINCOUNT": "100000"},
    "GOMP_SPINCOUNT=10000": {"GOMP_SPINCOUNT": "10000"},
    "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
    "GOMP_SPINCOUNT=300": {"GOMP_SPINCOUNT": "300"},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
WARMUP, STEPS, LIMIT = 4, 12, 20.0
BUSY = "while True: pass"
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}


def step_time(batch: int, length: int, width: int, depth: int) -> float:
    """Milliseconds of a training step in this process; the median of several, of fewer if they take long."""
    import time

    import torch

    from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification

    torch.manual_seed(0)
    config = TransEvolveConfig.variant("fullFF-1", hidden_size=width, block_depth=depth, vocab_size=8000, num_labels=4)
    model = TransEvolveForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids, labels = torch.randint(4, 8000, (batch, length)), torch.randint(4, (batch,))
    seconds, start = [], time.perf_counter()
    while len(seconds) < WARMUP + STEPS and (len(seconds) <= WARMUP or time.perf_counter() - start < LIMIT):
        begin = time.perf_counter()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    return 1000 * median(seconds[WARMUP:])


@contextmanager
def neighbour(busy: bool):
    process = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def measured(shape: tuple[int, ...], variables: dict[str, str], busy: bool) -> float:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_", "MALLOC_"))}
    with neighbour(busy):
        command = [sys.executable, __file__, json.dumps(shape)]
        environment = {**clean, **KEPT, "OMP_NUM_THREADS": "2", **variables}
        return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    from transevolve.core.machine import describe_machine

    cases = [(name, shape, busy) for name in SETTINGS for shape in (SHORT, LONG) for busy in (False, True)]
    found = {}
    for name, shape, busy in cases:
        found[name, shape, busy] = measured(shape, SETTINGS[name], busy)
        print(name, shape, busy, found[name, shape, busy], file=sys.stderr)
    machine = {k: v for k, v in describe_machine().items() if k not in ("threads", "OpenMP", "allocator")}
    print("# Spinning threads and a busy neighbour\n")
    print(
        "Milliseconds of a training step in float32 on two threads; medians of the steps of one process each, in turns."
    )
    print("*Busy*: beside one process that never waits. `python results/throughput/neighbour.py`\n")
    print("".join(f"- {key}: `{value}`\n" for key, value in machine.items()))
    print("| | 32 x 50 tokens, quiet | busy | 2 x 1,024 tokens, quiet | busy |\n|---|---|---|---|---|")
    for name in SETTINGS:
        cells = (f"{found[name, shape, busy]:,.0f}" for shape in (SHORT, LONG) for busy in (False, True))
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(step_time(*json.loads(sys.argv[1])))
    else:
        main()
