"""Items that arrive over time, gathered into windows: a window leaves when it is full, or when its input pauses."""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")
Event = tuple[T | None, BaseException | None]
CHECKED_EVERY = 0.5


def windows(items: Iterable[T], size: int, pause: float | None = None, longest: float = 0.5) -> Iterator[list[T]]:
    """Lists of at most `size` items, in constant memory.

    With a `pause`, items are read on a thread, at most `size` of them ahead, and a window ends early when no item has
    come for `pause` seconds, or when its first item has waited for `longest`. An error of `items` is raised after the
    items before it have left.
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
    """Waits for room; False if nobody reads any more."""
    while not stopped.is_set():
        try:
            events.put(event, timeout=CHECKED_EVERY)
            return True
        except Full:
            continue
    return False


def _gather(events: "Queue[Event[T]]", size: int, pause: float, longest: float) -> tuple[list[T], BaseException | None]:
    """The next window, and what ended the input, if it has ended. Waits without limit for the first item only."""
    window: list[T] = []
    until = None
    while len(window) < size:
        try:
            timeout = None if until is None else max(0.0, min(pause, until - time.monotonic()))
            item, end = events.get(timeout=timeout)
        except Empty:
            break
        if end is not None:
            return window, end
        window.append(item)  # pyright: ignore[reportArgumentType]
        until = until or time.monotonic() + longest
    return window, None
