"""Softmax attention to a causal sequence that arrives in pieces of one token or more.

A block stores keys once, and their drift and values for each depth. The scores of a new token against all keys are
computed once and used at every depth.

Rows of the batch may be beams of fewer sentences. Beams are reordered at every step of a search, but keys and values do
not move: those of all beams of a sentence are stored side by side in slots, each beam scores all slots in one product,
and its lineage marks the slots of its own past.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..initial import InitialCondition, at_least_float32, initial_scores
from .backend import Evolution
from .growing import Growing
from .state import Stream


class ExactStream(Stream):
    """The past of any exact backend: keys, drift, and the values of each depth.

    `limit` is the largest length, if known.

    Token `t` of beam `b` is in slot `t * width + b` of its sentence; `lineage[s, b, t]` is the beam in which token t of
    beam b of sentence s was decoded.
    """

    def __init__(self, limit: int | None = None):
        self.limit, self.width = limit, 1
        self.keys, self.drift = Growing(2, limit), Growing(3, limit)
        self.values: dict[int, Growing] = {}
        self.lineage: Int[Tensor, "sentences width n"] | None = None

    def _evolution(self, initial: InitialCondition) -> Evolution:
        if self.lineage is not None:
            new = initial.keys.shape[1]
            places = torch.arange(self.width, device=initial.keys.device)[:, None]
            self.lineage = torch.cat([self.lineage, places.expand(self.lineage.shape[0], -1, new)], 2)
        keys = self.keys.append(grouped(initial.head_keys, self.width))
        drift = initial.drift
        if drift is not None:
            drift = self.drift.append(_grouped_drift(drift, self.width))
        return _ExactStep(self, initial, keys, drift)

    def add_values(
        self, values: Float[Tensor, "batch heads q part"], l: int
    ) -> Float[Tensor, "sentences heads slots part"]:
        """Appends values of depth l; returns all of them."""
        past = self.values.setdefault(l, Growing(2, self.limit))
        return past.append(grouped(values, self.width))

    def visible(self, queries: int) -> Bool[Tensor, "#sentences 1 #q k"] | None:
        """Which slots the last `queries` tokens of each beam may see; None if all see all."""
        mask = self.key_padding_mask
        seen = None if mask is None else ~mask.unflatten(0, (-1, self.width))[..., None]
        if self.lineage is not None:
            own = self.lineage[..., None] == torch.arange(self.width, device=self.lineage.device)
            seen = own if seen is None else seen & own
        if queries == 1:
            return None if seen is None else seen.flatten(2)[:, None]
        device = None if seen is None else seen.device
        times = torch.arange(self.length, device=device)
        past = (times <= times[-queries:, None])[None, :, None, :, None]
        seen = past.expand(-1, -1, self.width, -1, self.width) if seen is None else seen[:, None] & past
        return seen.flatten(3).flatten(1, 2)[:, None]

    def _reorder(self, parents: Tensor, width: int) -> None:
        if self.lineage is None:
            if width == 1 and torch.equal(parents, torch.arange(len(parents), device=parents.device)):
                return
            self._spread(parents, width)
        elif width != self.width:
            raise ValueError(f"sentences with {self.width} beams cannot continue with {width}")
        else:
            parents = (parents % width).view(-1, width, 1)
            self.lineage = self.lineage.gather(1, parents.expand(-1, -1, self.length))

    def _spread(self, parents: Tensor, width: int) -> None:
        """Moves the rows of a sentence side by side, at the first reordering."""
        limit = None if self.limit is None else self.limit * width
        for past in (self.keys, *self.values.values()):
            past.replace(grouped(past.filled[parents], width), limit, width)
        if self.drift.storage is not None:
            self.drift.replace(_grouped_drift(self.drift.filled[:, parents], width), limit, width)
        self.width = width
        if width > 1:
            places = torch.arange(width, device=parents.device)[:, None]
            self.lineage = places.repeat(len(parents) // width, 1, self.length)

    def _select(self, sentences: Tensor, rows: Tensor) -> None:
        index = sentences if self.lineage is not None else rows
        for past in (self.keys, *self.values.values()):
            past.select(index, 0)
        self.drift.select(index, 1)
        if self.lineage is not None:
            self.lineage = self.lineage[index]

    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"a past of {self.length} tokens cannot be cut to {length}")
        self.length = length
        for past in (self.keys, self.drift, *self.values.values()):
            past.truncate(length * self.width)
        self.key_padding_mask = None if self.key_padding_mask is None else self.key_padding_mask[:, :length]
        self.lineage = None if self.lineage is None else self.lineage[..., :length]

    def tensors(self) -> list[Tensor]:
        stored = (self.keys, self.drift, *self.values.values())
        return [past.storage for past in stored if past.storage is not None]


class _ExactStep(Evolution):
    """Attention of the newest tokens to the whole past: scores once, then a softmax and a product per depth."""

    def __init__(self, stream: ExactStream, initial: InitialCondition, keys: Tensor, drift: Tensor | None):
        self.initial, self.stream, self.drift = initial, stream, drift
        wide = at_least_float32(initial.queries.dtype)
        scores = initial_scores(grouped(initial.scaled_queries, stream.width), keys).to(wide)
        visible = stream.visible(initial.queries.shape[1])
        self.masked = None if visible is None else ~visible.to(scores.device)
        self.scores = scores if self.masked is None else scores.masked_fill(self.masked, torch.finfo(wide).min)
        self.may_see_no_key = stream.key_padding_mask is not None

    def _weights(self, l: int) -> Float[Tensor, "sentences heads q k"]:
        scores = self.scores if self.drift is None else self.scores + self.drift[l - 1][..., None, :]
        weights = scores.softmax(-1)
        if self.may_see_no_key and self.masked is not None:
            weights = weights.masked_fill(self.masked, 0.0)
        return weights

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        width = self.stream.width
        return ungrouped(self._weights(l).unflatten(-1, (-1, width)).sum(-1), width)

    def mix(self, values: Float[Tensor, "batch heads q part"], l: int) -> Float[Tensor, "batch heads q part"]:
        past = self.stream.add_values(values, l)
        return ungrouped(self._weights(l).to(values.dtype) @ past, self.stream.width)


def grouped(x: Float[Tensor, "batch heads n part"], width: int) -> Float[Tensor, "sentences heads slots part"]:
    """Puts the rows of a sentence side by side: slot t * width + b."""
    if width == 1:
        return x
    return x.unflatten(0, (-1, width)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def ungrouped(x: Float[Tensor, "sentences heads slots part"], width: int) -> Float[Tensor, "batch heads n part"]:
    if width == 1:
        return x
    return x.unflatten(2, (-1, width)).permute(0, 3, 1, 2, 4).flatten(0, 1)


def _grouped_drift(
    drift: Float[Tensor, "depth batch heads n"], width: int
) -> Float[Tensor, "depth sentences heads slots"]:
    if width == 1:
        return drift
    return drift.unflatten(1, (-1, width)).permute(0, 1, 3, 4, 2).flatten(3)
