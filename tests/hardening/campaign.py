"""Tries many inputs generated from seeds and counts them; for a failure, prints the command that reproduces it."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

import pytest

SEED = "TRANSEVOLVE_FUZZ_SEED"
MOST_FAILURES = 10
Verdict = Literal["right", "error"]


def campaign(
    request: pytest.FixtureRequest, kind: str, seeds: Iterable[int], attempt: Callable[[random.Random], Verdict]
) -> None:
    """Tries the input of each seed; `attempt` draws and judges it, and raises if the answer is not acceptable.

    TRANSEVOLVE_FUZZ_SEED in the environment replaces the seeds: one number, or a range such as 100-200.
    """
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in _asked() or seeds:
        try:
            counts[attempt(random.Random(f"{kind} {seed}"))] += 1
        except Exception as error:
            counts["failed"] += 1
            again = f"{SEED}={seed} python -m pytest -n 0 -m '' '{request.node.nodeid}'"
            failures.append(f"{kind} {seed}: {type(error).__name__}: {error}\n    again: {again}")
        if len(failures) == MOST_FAILURES:
            break
    request.node.user_properties.append(("hardening", f"{kind}: {_summary(counts)}"))
    assert not failures, "\n".join(["", *failures])


def _asked() -> range | None:
    first, _, last = os.environ.get(SEED, "").partition("-")
    return range(int(first), int(last or first) + 1) if first else None


def _summary(counts: Counter[str]) -> str:
    summary = f"{counts.total():,} inputs tried, {counts['right']:,} right answers, {counts['error']:,} clean errors"
    return summary + (f", {counts['failed']:,} FAILED" if counts["failed"] else "")
