"""Peak memory of a block of code."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

from .machine import process_status

CLEAR_REFS = Path("/proc/self/clear_refs")
# Freed tensors are returned to the system immediately, so the peak does not depend on the allocator's cache.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}


@contextmanager
def peak_memory(device: str) -> Iterator[Callable[[], tuple[int, str]]]:
    """Yields a function that returns the peak memory increase of the block in bytes, and how it was measured."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        base = torch.cuda.memory_allocated(device)
        yield lambda: (torch.cuda.max_memory_allocated(device) - base, "torch.cuda.max_memory_allocated")
    elif _reset_high_water_mark():
        base = process_status("VmRSS")
        yield lambda: (max(process_status("VmHWM") - base, 0), "VmHWM")
    else:
        with _sampled_peak() as read:
            yield read


def _reset_high_water_mark() -> bool:
    """Resets VmHWM to the current size; returns False if the system does not support it."""
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
