"""Reads of tensor values from Python.

On a GPU a read waits for all queued work, so every read of the layers goes through `read` and is listed in `READS`. A
training step has at most one: the range of the drift, collected over all blocks.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

READS = {
    "drift": "whether the drift of all blocks is small enough to be factored out of the softmax",
    "lengths": "lengths of the sequences, to skip padding; on a CPU only",
    "padding": "whether prepared keys have padding; once per batch that is decoded",
    "frequencies": "lengths of padded sequences in FNet, which transforms equal lengths together; per layer",
    "passes": "passes since random features were drawn; only if they are redrawn",
}

_collected: ContextVar[list[Tensor] | None] = ContextVar("collected", default=None)
_refused: ContextVar[bool] = ContextVar("refused", default=False)


def read(x: Tensor, what: str) -> Any:
    """The value of x as Python numbers; `what` is a key of `READS`."""
    if what not in READS:
        raise KeyError(f"{what!r} is not in READS")
    return _take(x, what)


def _take(x: Tensor, what: str) -> Any:
    return x.tolist()


def negative(x: Tensor) -> bool:
    """Whether x < 0 (False for NaN): read now on a CPU or outside `one_read`, else assumed and checked at its end."""
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
    """Decorates a forward pass to assume the answers of `negative`, check them in one read, and repeat if one is wrong.

    Passes with `trace`, `streams`, `state` or `past_key_values` have side effects and cannot be repeated: they read
    immediately.
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
