"""A tensor that grows along one dimension; appending does not copy what is already there."""

import torch
from torch import Tensor


class Growing:
    """Storage grows by an eighth and at least 8 units, but not beyond `limit`, the largest length if known.

    With gradients, pieces are concatenated instead: writing in place would overwrite what the backward pass needs.
    """

    def __init__(self, dim: int, limit: int | None = None, unit: int = 1):
        self.dim, self.limit, self.unit, self.length = dim, limit, unit, 0
        self.storage: Tensor | None = None

    @property
    def filled(self) -> Tensor:
        assert self.storage is not None
        return self.storage.narrow(self.dim, 0, self.length)

    def append(self, new: Tensor) -> Tensor:
        """Appends `new`; returns everything."""
        start, self.length = self.length, self.length + new.shape[self.dim]
        old = self.storage
        if torch.is_grad_enabled() and (new.requires_grad or (old is not None and old.requires_grad)):
            self.storage = new if old is None else torch.cat([old.narrow(self.dim, 0, start), new], self.dim)
            return self.storage
        if old is None or old.shape[self.dim] < self.length:
            self._grow(new, start)
        assert self.storage is not None
        self.storage.narrow(self.dim, start, self.length - start).copy_(new)
        return self.filled

    def _grow(self, like: Tensor, filled: int) -> None:
        capacity = self.length + max(8 * self.unit, self.length // 8)
        if self.limit is not None and self.length <= self.limit:
            capacity = min(capacity, self.limit)
        shape = [*like.shape]
        shape[self.dim] = capacity
        storage = like.new_empty(shape)
        if self.storage is not None:
            storage.narrow(self.dim, 0, filled).copy_(self.storage.narrow(self.dim, 0, filled))
        self.storage = storage

    def select(self, index: Tensor, dim: int) -> None:
        """Selects entries of another dimension, in this order."""
        if self.storage is not None:
            self.storage = self.storage.index_select(dim, index)

    def replace(self, content: Tensor, limit: int | None, unit: int) -> None:
        """Replaces content, limit and unit."""
        self.storage, self.length, self.limit, self.unit = content, content.shape[self.dim], limit, unit

    def truncate(self, length: int) -> None:
        self.length = length
