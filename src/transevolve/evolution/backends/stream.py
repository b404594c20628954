"""Causal attention on a sequence that arrives piece by piece, a token at a time if need be.

`ExactStream` keeps what softmax needs: per block one set of keys, per depth their drift and values. A new token's
scores against all keys are computed once and serve every depth. `LinearStream` keeps sums, whose size does not grow.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..initial import InitialCondition
from .base import Evolution, Settings
from .linear import Carry, LinearEvolution


class Stream(ABC):
    """The past of one block's causal attention."""

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

    @abstractmethod
    def _evolution(self, initial: InitialCondition) -> Evolution: ...


class LinearStream(Stream):
    """O(1) memory: sums of features and of features times values, for each depth."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.carries: dict[int, Carry] = {}

    def _evolution(self, initial: InitialCondition) -> Evolution:
        return LinearEvolution(initial, self.settings, self.carries)


class ExactStream(Stream):
    """Softmax attention of any exact backend: keys and drift grow with the sequence, and values at each depth."""

    def __init__(self, settings: Settings):
        self.keys: Float[Tensor, "batch heads n part"] | None = None
        self.drift: Float[Tensor, "depth batch heads n"] | None = None
        self.values: dict[int, Float[Tensor, "batch heads n part"]] = {}

    def _evolution(self, initial: InitialCondition) -> Evolution:
        self.keys = _joined(self.keys, initial.head_keys, 2)
        drift = initial.drift
        if drift is not None:
            self.drift = _joined(self.drift, drift, 3)
        return _ExactStep(self, initial)


class _ExactStep(Evolution):
    def __init__(self, stream: ExactStream, initial: InitialCondition):
        assert stream.keys is not None
        self.stream = stream
        queries = initial.queries.shape[1]
        wide = torch.promote_types(initial.queries.dtype, torch.float32)
        self.scores = (initial.scaled_queries @ stream.keys.mT).to(wide)
        places = torch.arange(stream.length, device=stream.keys.device)
        visible = places <= places[-queries:, None]
        self.visible = visible if stream.mask is None else visible & stream.mask[:, None, None, :]

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        drift = self.stream.drift
        scores = self.scores if drift is None else self.scores + drift[l - 1][..., None, :]
        scores = scores.masked_fill(~self.visible, torch.finfo(scores.dtype).min)
        return scores.softmax(-1).masked_fill(~self.visible, 0.0)

    def mix(self, values: Float[Tensor, "batch heads q part"], l: int) -> Float[Tensor, "batch heads q part"]:
        past = self.stream.values[l] = _joined(self.stream.values.get(l), values, 2)
        return self.attention(l).to(values.dtype) @ past


def _joined(past: Tensor | None, new: Tensor, dim: int) -> Tensor:
    return new if past is None else torch.cat([past, new], dim)


def open_stream(backend: str, settings: Settings) -> Stream:
    """An empty past for a backend; all exact ones share theirs."""
    return LinearStream(settings) if backend == "linear" else ExactStream(settings)
