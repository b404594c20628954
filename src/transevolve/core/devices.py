"""Device selection: the requested device, else the first GPU, else the CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from .environment import variable
from .errors import UserError

# Also read by the Trainer and by child processes.
VARIABLE = "ACCELERATE_TORCH_DEVICE"


def default_device() -> torch.device:
    name = os.environ.get(VARIABLE)
    if name is not None:
        return require_device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def require_device(name: str | torch.device | None) -> torch.device:
    """Returns the device, or the default device if None; raises UserError if it is not available."""
    if name is None:
        return default_device()
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except Exception:  # the exception type depends on the backend
        available = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
        found = f"PyTorch {torch.__version__} finds {', '.join(available)}"
        raise UserError(f"device {str(name)!r} is not available: {found}") from None
    if device.type == "meta":
        raise UserError("device 'meta' cannot compute: choose another device")
    return device


def synchronize(device: str | torch.device) -> None:
    """Waits for the queued work of a GPU; does nothing on other devices."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def use_device(name: str | None) -> Iterator[torch.device]:
    """Sets the default device in the block, also for the Trainer and for child processes."""
    device = require_device(name)
    with nullcontext() if name is None else variable(VARIABLE, str(device)):
        yield device
