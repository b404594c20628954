"""Commands in processes that can be killed at chosen moments, forked from one that has imported everything."""

import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from training_support import metrics, result, weights

SECONDS = 300
CLOCKS = ("seconds", "tokens_per_second")
FILES = ["recipe.yaml", "metrics.jsonl", "model.safetensors", "config.json", "tokenizer.json", "manifest.json"]
FILES += ["curves.png", "results.json", ".transevolve.owner", ".transevolve-*.tmp", "checkpoints/.partial"]
FILES += ["checkpoints/.partial/*/model.safetensors", "checkpoints/.partial/*/optimizer.pt"]
FILES += [
    "checkpoints/.partial/*/trainer_state.json",
    "checkpoints/.partial/*/manifest.json",
    "checkpoints/checkpoint-*",
]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["transevolve.cli", "transevolve.training.train", "transevolve.runs.averaging"])


def command(arguments: list[str], output: Connection, limit: int | None) -> None:
    """Runs one command in a forked process; its files may have at most `limit` bytes."""
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))  # noqa: SIM115
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    import torch

    from transevolve.cli import main

    torch.set_num_threads(1)
    sys.exit(main(arguments))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    output: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def attempt(arguments: list[str], kill_now: Callable[[], bool] = lambda: False, limit: int | None = None) -> Ended:
    """Runs a command to its end, or kills it as soon as `kill_now` says so."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    started = CONTEXT.Process(target=command, args=(list(map(str, arguments)), theirs, limit), daemon=True)
    started.start()
    theirs.close()
    pieces: list[bytes] = []
    reading = threading.Thread(target=_read, args=(ours.fileno(), pieces), daemon=True)
    reading.start()
    deadline = time.monotonic() + SECONDS
    while started.is_alive():
        if kill_now() or time.monotonic() > deadline:
            started.kill()
            break
        time.sleep(0.001)
    started.join()
    reading.join()
    assert time.monotonic() < deadline, f"{arguments} did not end"
    return Ended(started.exitcode, b"".join(pieces).decode(errors="replace"))


def _read(stream: int, pieces: list[bytes]) -> None:
    while content := os.read(stream, 65536):
        pieces.append(content)


def window(draw: random.Random, folder: Path) -> tuple[str, Callable[[], bool]]:
    """When to kill: some time after the start, or around the next changes of a file in `folder`."""
    delay = draw.choice([0.0, draw.uniform(0, 0.03)])
    if draw.random() < 0.15:
        moment = time.monotonic() + draw.uniform(0, 1)
        return "preparing", lambda: time.monotonic() >= moment
    pattern, changes = draw.choice(FILES), draw.choice([1, 1, 2, 3])
    seen, left, due = _stamps(folder, pattern), [changes], [float("inf")]

    def now() -> bool:
        nonlocal seen
        found = _stamps(folder, pattern)
        if found != seen:
            seen = found
            left[0] -= 1
            if left[0] == 0:
                due[0] = time.monotonic() + delay
        return time.monotonic() >= due[0]

    return f"{pattern}, change {changes}", now


def _stamps(folder: Path, pattern: str) -> set[tuple[str, int, int]]:
    """The existing files; the command may remove any of them, and their folders, at the same time."""
    found = set()
    with suppress(FileNotFoundError):
        for path in folder.glob(pattern):
            status = path.lstat()
            found.add((path.name, status.st_ino, status.st_mtime_ns))
    return found


def outcome(run: Path) -> tuple:
    """Requires that two runs are bitwise equal, and that no temporary files are left."""
    leftovers = [path for pattern in ("**/.transevolve-*.tmp", "**/.partial") for path in run.glob(pattern)]
    rows = [{name: value for name, value in row.items() if name not in CLOCKS} for row in metrics(run)]
    found = result(run)
    return weights(run), rows, found["best_step"], found["validation"], found["test"], leftovers
