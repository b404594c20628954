"""Reuse of large CPU buffers: the first access to fresh memory costs more than the arithmetic on it."""

import threading

import torch
from torch import Tensor

from ...core.private import storage_references

SMALLEST = 2**22
KEPT = 8


class BufferPool:
    """Returns uninitialized vectors in pooled storages; a storage is free once nothing else refers to it.

    Buffers are not returned explicitly: tensors saved by autograd are references until the backward pass frees them.
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
        """Empties the pool; buffers in use stay valid."""
        with self._lock:
            self._storages = []


POOL = BufferPool()
