"""Times PyTorch and an exported model alternately."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from transformers import PreTrainedConfig

from ..bench.summary import spread
from .classifier import Forward, length_limit, sample

LENGTHS = (16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Timing:
    """Seconds of each round at one length."""

    length: int
    torch: list[float]
    exported: list[float]


def compare(expected: Forward, found: Forward, config: PreTrainedConfig, rounds: int) -> list[Timing]:
    """Times one text at several lengths, after a warm-up round."""
    limit = length_limit(config)
    lengths = [length for length in LENGTHS if limit is None or length <= limit] or [limit or 1]
    with torch.inference_mode():
        return [_at(expected, found, config.vocab_size, length, rounds) for length in lengths]


def _at(expected: Forward, found: Forward, vocab: int, length: int, rounds: int) -> Timing:
    batch = sample(1, length, vocab)
    timing = alternate(length, lambda: expected(*batch), lambda: found(*batch), rounds + 1)
    return Timing(length, timing.torch[1:], timing.exported[1:])


def alternate(length: int, expected: Callable[[], object], found: Callable[[], object], rounds: int) -> Timing:
    """Times both functions in turn, `rounds` times."""
    timing = Timing(length, [], [])
    for _ in range(rounds):
        for step, seconds in ((expected, timing.torch), (found, timing.exported)):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
    return timing


def table(timings: list[Timing], name: str) -> tuple[list[str], list[list[str]]]:
    """Returns medians, and the ratio of the medians with the quartiles of the ratios per round."""
    rows = []
    for timing in timings:
        ours, theirs = spread(timing.torch).middle, spread(timing.exported).middle
        ratio = spread([a / b for a, b in zip(timing.torch, timing.exported, strict=True)])
        speed = replace(ratio, middle=ours / theirs).text()
        rows.append([str(timing.length), f"{1e3 * ours:.2f}", f"{1e3 * theirs:.2f}", speed])
    return ["length", "torch ms", f"{name} ms", f"speed of {name} / torch"], rows
