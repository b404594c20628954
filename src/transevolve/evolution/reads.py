"""Every place where Python waits for a value of a tensor.

On a GPU such a read stops the program until all queued work is done, so all reads of this package's layers go through
`read`, and `READS` lists them. In training there is at most one per step: that of the drift, collected over all blocks.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

READS = {
    "drift": "whether the range of the drift, over all blocks of a pass, lets it leave the exponentials",
    "lengths": "the lengths of the sequences, to skip their padding; on a CPU only",
    "padding": "whether prepared keys have any padding; once per sentence that is decoded",
    "frequencies": "the lengths of padded sequences in FNet, which transforms equal lengths together; per layer",
    "passes": "how many passes random features have served; only if they are redrawn",
}

_collected: ContextVar[list[Tensor] | None] = ContextVar("collected", default=None)
_refused: ContextVar[bool] = ContextVar("refused", default=False)


def read(x: Tensor, what: str) -> Any:
    """The value of x in Python; `what` is a key of `READS`."""
    if what not in READS:
        raise KeyError(f"{what!r} is not in READS")
    return _take(x, what)


def _take(x: Tensor, what: str) -> Any:
    return x.tolist()


def negative(x: Tensor) -> bool:
    """Whether x < 0, for NaN not: read at once on a CPU or outside `one_read`; else assumed, and checked at its end."""
    if _refused.get():
        return False
    collected = _collected.get()
    if collected is None or x.device.type == "cpu":
        return read(x, "drift") < 0
    collected.append(x)
    return True


@contextlib.contextmanager
def _set(variable: ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def one_read(forward: Callable) -> Callable:
    """A forward pass that assumes the answers to `negative` and checks them in one read; if one was wrong, it repeats.

    Passes that collect or append something, with `trace`, `stream`, `streams`, `state` or `past_key_values`, read at
    once instead: they cannot be repeated.
    """

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        once_only = any(kwargs.get(name) is not None for name in ("trace", "streams", "state", "past_key_values"))
        if torch.compiler.is_compiling() or once_only or _collected.get() is not None:
            return forward(*args, **kwargs)
        found: list[Tensor] = []
        with _set(_collected, found):
            y = forward(*args, **kwargs)
        if not found or read(torch.stack(found).max(), "drift") < 0:
            return y
        with _set(_refused, True):
            return forward(*args, **kwargs)

    return run
