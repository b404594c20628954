"""Reused large CPU buffers: the first touch of fresh memory costs more than the arithmetic done in it."""

import threading

import torch
from torch import Tensor

from ...core.private import storage_references

SMALLEST = 2**22
KEPT = 8


class BufferPool:
    """Hands out uninitialised vectors on storages it keeps; a storage is free once nothing else refers to it.

    Nothing is returned by hand: autograd's saved tensors count as references until backward frees them.
    """

    def __init__(self) -> None:
        self._storages: list[torch.UntypedStorage] = []
        self._lock = threading.Lock()

    def take(self, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        size = count * dtype.itemsize
        if device.type != "cpu" or size < SMALLEST:
            return torch.empty(count, dtype=dtype, device=device)
        with self._lock:
            free = [s for s in self._storages if storage_references(s) == 1]
            fitting = [s for s in free if s.nbytes() >= size]
            if fitting:
                storage = min(fitting, key=lambda s: s.nbytes())
            else:
                self._storages = [s for s in self._storages if s not in free][-KEPT:]
                storage = torch.empty(count, dtype=dtype).untyped_storage()
                self._storages.append(storage)
            empty = torch.empty(0, dtype=dtype)
            return empty.set_(storage, 0, (count,))  # pyright: ignore[reportCallIssue, reportArgumentType]

    def clear(self) -> None:
        """Drops every buffer; those in use stay alive with their users."""
        with self._lock:
            self._storages = []


POOL = BufferPool()
