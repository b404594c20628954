"""The device to compute on: the one that was named, else the first GPU, else the CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .errors import UserError

# The Trainer, and processes started from this one, read the same variable.
VARIABLE = "ACCELERATE_TORCH_DEVICE"


def default_device() -> torch.device:
    name = os.environ.get(VARIABLE)
    if name is not None:
        return require_device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def require_device(name: str | torch.device | None) -> torch.device:
    """A device that this machine has; None is the default one."""
    if name is None:
        return default_device()
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except Exception:  # every kind of device raises an error of its own
        seen = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        raise UserError(f"no device {str(name)!r} here: PyTorch {torch.__version__} sees {', '.join(seen)}") from None
    if device.type == "meta":
        raise UserError("the device 'meta' computes nothing: choose another")
    return device


@contextmanager
def computing_on(name: str | None) -> Iterator[torch.device]:
    """Makes a device the default one, also for the Trainer and for processes started in the block."""
    before, device = os.environ.get(VARIABLE), require_device(name)
    if name is not None:
        os.environ[VARIABLE] = str(device)
    try:
        yield device
    finally:
        if name is not None and before is None:
            del os.environ[VARIABLE]
        elif before is not None:
            os.environ[VARIABLE] = before
