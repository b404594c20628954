"""Groups items that arrive over time into windows; a window ends when it is full or when the input pauses."""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")
Event = tuple[T | None, BaseException | None]
POLL_SECONDS = 0.5


def windows(items: Iterable[T], size: int, pause: float | None = None, longest: float = 0.5) -> Iterator[list[T]]:
    """Yields lists of at most `size` items, in constant memory.

    With a `pause`, a thread reads at most `size` items ahead. A window then ends early if no item has arrived for
    `pause` seconds, or if its first item has waited for `longest` seconds. An exception of `items` is raised after the
    items before it have been yielded.
    """
    if pause is None:
        items = iter(items)
        while window := list(itertools.islice(items, size)):
            yield window
        return
    events: Queue[Event[T]] = Queue(maxsize=size)
    stopped = threading.Event()
    threading.Thread(target=_read, args=(items, events, stopped), daemon=True).start()
    try:
        while True:
            window, end = _gather(events, size, pause, longest)
            if window:
                yield window
            if end is not None:
                if isinstance(end, StopIteration):
                    return
                raise end
    finally:
        stopped.set()


def _read(items: Iterable[T], events: "Queue[Event[T]]", stopped: threading.Event) -> None:
    try:
        for item in items:
            if not _put(events, (item, None), stopped):
                return
        _put(events, (None, StopIteration()), stopped)
    except BaseException as error:
        _put(events, (None, error), stopped)


def _put(events: "Queue[Event[T]]", event: Event[T], stopped: threading.Event) -> bool:
    """Waits for space in the queue; returns False if the reader has stopped."""
    while not stopped.is_set():
        try:
            events.put(event, timeout=POLL_SECONDS)
            return True
        except Full:
            continue
    return False


def _gather(events: "Queue[Event[T]]", size: int, pause: float, longest: float) -> tuple[list[T], BaseException | None]:
    """Returns the next window, and the exception that ended the input, if any. Only the first item has no timeout."""
    window: list[T] = []
    deadline = None
    while len(window) < size:
        try:
            timeout = None if deadline is None else max(0.0, min(pause, deadline - time.monotonic()))
            item, end = events.get(timeout=timeout)
        except Empty:
            break
        if end is not None:
            return window, end
        window.append(item)  # pyright: ignore[reportArgumentType]
        deadline = deadline or time.monotonic() + longest
    return window, None
