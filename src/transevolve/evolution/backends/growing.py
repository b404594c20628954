"""A tensor that grows along one dimension: adding to it costs what is added, not what is there."""

import torch
from torch import Tensor


class Growing:
    """Room is made an eighth at a time, for 8 units at least, but never beyond `limit`, if that is known to suffice.

    Where gradients are wanted, pieces are joined anew, since writing in place would destroy what backward needs.
    """

    def __init__(self, dim: int, limit: int | None = None, unit: int = 1):
        self.dim, self.limit, self.unit, self.length = dim, limit, unit, 0
        self.room: Tensor | None = None

    @property
    def filled(self) -> Tensor:
        assert self.room is not None
        return self.room.narrow(self.dim, 0, self.length)

    def append(self, new: Tensor) -> Tensor:
        """Takes `new` in and returns all there is."""
        start, self.length = self.length, self.length + new.shape[self.dim]
        if torch.is_grad_enabled() and (new.requires_grad or (self.room is not None and self.room.requires_grad)):
            past = None if self.room is None else self.room.narrow(self.dim, 0, start)
            self.room = new if past is None else torch.cat([past, new], self.dim)
            return self.room
        if self.room is None or self.room.shape[self.dim] < self.length:
            self._make_room(new, start)
        assert self.room is not None
        self.room.narrow(self.dim, start, self.length - start).copy_(new)
        return self.filled

    def _make_room(self, like: Tensor, filled: int) -> None:
        wanted = self.length + max(8 * self.unit, self.length // 8)
        if self.limit is not None and self.length <= self.limit:
            wanted = min(wanted, self.limit)
        shape = [*like.shape]
        shape[self.dim] = wanted
        room = like.new_empty(shape)
        if self.room is not None:
            room.narrow(self.dim, 0, filled).copy_(self.room.narrow(self.dim, 0, filled))
        self.room = room

    def select(self, index: Tensor, dim: int) -> None:
        """Keeps the given entries of another dimension, in the given order."""
        if self.room is not None:
            self.room = self.room.index_select(dim, index)

    def replace(self, content: Tensor, limit: int | None, unit: int) -> None:
        """Holds other content from now on, with another limit and unit."""
        self.room, self.length, self.limit, self.unit = content, content.shape[self.dim], limit, unit

    def crop(self, length: int) -> None:
        self.length = length
