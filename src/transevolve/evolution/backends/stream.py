"""Causal attention on a sequence that arrives piece by piece, a token at a time if need be.

`ExactStream` keeps what softmax needs: per block one set of keys, per depth their drift and values. A new token's
scores against all keys are computed once and serve every depth. `LinearStream` keeps sums, whose size does not grow.

Rows of the batch may be beams of fewer sentences. Beams change places at every step of a search; `ExactStream` then
moves no keys and no values. Those of all beams of a sentence lie side by side, in slots, every beam scores all of them
in one product, and its lineage says which slots are its own past.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..initial import InitialCondition
from .backend import Evolution, Settings
from .growing import Growing
from .linear import Carry, LinearEvolution


class Stream(ABC):
    """The past of one block's causal attention. `limit` is the length it is known not to exceed, if any."""

    croppable: bool = True
    length: int = 0
    mask: Bool[Tensor, "batch n"] | None = None

    def extend(self, initial: InitialCondition) -> Evolution:
        """Takes in the next tokens; each depth's `mix` then takes in their values, in the order of the tokens."""
        if not initial.causal:
            raise ValueError("a stream grows at its end: only causal attention can follow it")
        self._remember(initial)
        self.length += initial.keys.shape[1]
        return self._evolution(initial)

    def _remember(self, initial: InitialCondition) -> None:
        """Which keys are real, so far; None while all are."""
        new = initial.key_mask
        if new is None and self.mask is None:
            return
        batch, n, _ = initial.keys.shape
        device = initial.keys.device
        old = torch.ones(batch, self.length, dtype=torch.bool, device=device) if self.mask is None else self.mask
        new = torch.ones(batch, n, dtype=torch.bool, device=device) if new is None else new
        self.mask = torch.cat([old, new], 1)

    def sighted(self, queries: int) -> Bool[Tensor, "batch q"] | None:
        """Which of the last `queries` tokens see a key at all; None while all do."""
        return None if self.mask is None else (self.mask.cumsum(1) > 0)[:, -queries:]

    def reorder(self, parents: Int[Tensor, " batch"], sentences: int) -> None:
        """Row i continues what row `parents[i]` was, of the same sentence; the first time, rows may multiply."""
        if self.mask is not None:
            self.mask = self.mask[parents]
        self._reorder(parents, len(parents) // sentences)

    def select(self, sentences: Int[Tensor, " kept"], width: int) -> None:
        """Keeps only these sentences, with all `width` rows of each."""
        rows = (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()
        if self.mask is not None:
            self.mask = self.mask[rows]
        self._select(sentences, rows)

    @abstractmethod
    def _evolution(self, initial: InitialCondition) -> Evolution: ...

    @abstractmethod
    def _reorder(self, parents: Tensor, width: int) -> None: ...

    @abstractmethod
    def _select(self, sentences: Tensor, rows: Tensor) -> None: ...

    @abstractmethod
    def crop(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""

    @abstractmethod
    def tensors(self) -> list[Tensor]:
        """All that is kept."""


class LinearStream(Stream):
    """O(1) memory: sums of features and of features times values, for each depth."""

    croppable = False

    def __init__(self, settings: Settings):
        self.settings = settings
        self.carries: dict[int, Carry] = {}

    def _evolution(self, initial: InitialCondition) -> Evolution:
        return LinearEvolution(initial, self.settings, self.carries)

    def _reorder(self, parents: Tensor, width: int) -> None:
        for l, carry in self.carries.items():
            self.carries[l] = Carry(carry.values[parents], carry.features[parents], carry.scale[parents])

    def _select(self, sentences: Tensor, rows: Tensor) -> None:
        self._reorder(rows, 1)

    def crop(self, length: int) -> None:
        if length != self.length:
            raise ValueError("sums cannot be undone: the linear backend forgets nothing but all of its past")

    def tensors(self) -> list[Tensor]:
        return [part for carry in self.carries.values() for part in (carry.values, carry.features, carry.scale)]


class ExactStream(Stream):
    """Softmax attention of any exact backend: keys and drift grow with the sequence, and values at each depth.

    Time `t` of beam `b` is slot `t * width + b` of its sentence; `lineage[s, b, t]` is the beam that beam b of
    sentence s was at time t.
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
        """Takes in the values of depth l, and returns all of its past."""
        room = self.values.setdefault(l, Growing(2, self.limit))
        return room.append(grouped(values, self.width))

    def visible(self, queries: int) -> Bool[Tensor, "#sentences 1 #q k"] | None:
        """Which slots each of the last `queries` tokens of each beam may see; None where all do."""
        seen = None if self.mask is None else self.mask.unflatten(0, (-1, self.width))[..., None]
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
            self._spread(parents, width)
        elif width != self.width:
            raise ValueError(f"sentences of {self.width} beams cannot go on with {width}")
        else:
            parents = (parents % width).view(-1, width, 1)
            self.lineage = self.lineage.gather(1, parents.expand(-1, -1, self.length))

    def _spread(self, parents: Tensor, width: int) -> None:
        """Rows take their places, and those of a sentence lie side by side from now on."""
        limit = None if self.limit is None else self.limit * width
        for room in (self.keys, *self.values.values()):
            room.replace(grouped(room.filled[parents], width), limit, width)
        if self.drift.room is not None:
            self.drift.replace(_grouped_drift(self.drift.filled[:, parents], width), limit, width)
        self.width = width
        if width > 1:
            places = torch.arange(width, device=parents.device)[:, None]
            self.lineage = places.repeat(len(parents) // width, 1, self.length)

    def _select(self, sentences: Tensor, rows: Tensor) -> None:
        kept = sentences if self.lineage is not None else rows
        for room in (self.keys, *self.values.values()):
            room.select(kept, 0)
        self.drift.select(kept, 1)
        if self.lineage is not None:
            self.lineage = self.lineage[kept]

    def crop(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(f"a stream of {self.length} tokens has no first {length}")
        self.length = length
        for room in (self.keys, self.drift, *self.values.values()):
            room.crop(length * self.width)
        self.mask = None if self.mask is None else self.mask[:, :length]
        self.lineage = None if self.lineage is None else self.lineage[..., :length]

    def tensors(self) -> list[Tensor]:
        rooms = (self.keys, self.drift, *self.values.values())
        return [room.room for room in rooms if room.room is not None]


class _ExactStep(Evolution):
    """The newest tokens' attention to the whole past: scores once, then a softmax and a product at each depth."""

    def __init__(self, stream: ExactStream, initial: InitialCondition, keys: Tensor, drift: Tensor | None):
        self.stream, self.drift = stream, drift
        queries = initial.queries.shape[1]
        wide = torch.promote_types(initial.queries.dtype, torch.float32)
        scores = (grouped(initial.scaled_queries, stream.width) @ keys.mT).to(wide)
        self.hidden = visible = stream.visible(queries)
        if visible is not None:
            self.hidden = ~visible.to(scores.device)
            scores = scores.masked_fill(self.hidden, torch.finfo(wide).min)
        self.scores = scores
        self.may_be_blind = stream.mask is not None

    def _weights(self, l: int) -> Float[Tensor, "sentences heads q k"]:
        scores = self.scores if self.drift is None else self.scores + self.drift[l - 1][..., None, :]
        weights = scores.softmax(-1)
        if self.may_be_blind and self.hidden is not None:
            weights = weights.masked_fill(self.hidden, 0.0)
        return weights

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        width = self.stream.width
        return ungrouped(self._weights(l).unflatten(-1, (-1, width)).sum(-1), width)

    def mix(self, values: Float[Tensor, "batch heads q part"], l: int) -> Float[Tensor, "batch heads q part"]:
        past = self.stream.add_values(values, l)
        return ungrouped(self._weights(l).to(values.dtype) @ past, self.stream.width)


def grouped(x: Float[Tensor, "batch heads n part"], width: int) -> Float[Tensor, "sentences heads slots part"]:
    """The rows of a sentence side by side: slot t * width + b."""
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


def open_stream(backend: str, settings: Settings, limit: int | None = None) -> Stream:
    """An empty past for a backend; all exact ones share theirs."""
    return LinearStream(settings) if backend == "linear" else ExactStream(limit)
