"""Cross attention to a memory that does not change, prepared once for all the tokens that will ask.

The values of every depth are one and the same normalised memory, and the weights of every depth follow from the
block's input alone, so a new token's attention at all depths is one product.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..initial import InitialCondition
from .backend import Settings
from .linear import inverse, key_features, query_features, relative_weights


class Recall(ABC):
    """The attention of some queries to a memory: `mixed` holds its values averaged at every depth."""

    mixed: Float[Tensor, "batch heads #depth q part"]

    def at(self, l: int) -> Float[Tensor, "batch heads q part"]:
        """The memory's values averaged by the attention of depth l; zero where a query sees no key."""
        return self.mixed[:, :, min(l, self.mixed.shape[2]) - 1]

    @abstractmethod
    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l itself."""


class Memory(ABC):
    """What cross attention keeps of a memory, one copy for each sentence however many beams ask."""

    sentences: int
    keys: int
    sighted: Bool[Tensor, "batch 1"] | None

    def _see(self, initial: InitialCondition) -> None:
        self.sentences, self.keys, _ = initial.keys.shape
        sighted = initial.sighted()
        self.sighted = None if sighted is None or bool(sighted.all()) else sighted

    @abstractmethod
    def recall(self, queries: InitialCondition) -> Recall:
        """Attention of new queries; the keys of this initial condition are not looked at."""

    @abstractmethod
    def select(self, sentences: Int[Tensor, " kept"], values: Float[Tensor, "kept heads k part"] | None) -> None:
        """Keeps only these sentences; `values` are theirs, which the blocks share."""

    @abstractmethod
    def tensors(self) -> list[Tensor]:
        """All that is kept."""


class ExactMemory(Memory):
    """Keys, their drift at each depth with padding made part of it, and the values, which all blocks share."""

    bias: Float[Tensor, "batch #heads #depth 1 k"] | None

    def __init__(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]):
        self._see(initial)
        self.head_keys, self.values = initial.head_keys.contiguous(), values
        drift = initial.drift
        bias = None if drift is None else drift.permute(1, 2, 0, 3)[..., None, :].contiguous()
        if initial.key_mask is not None and not bool(initial.key_mask.all()):
            if bias is None:
                bias = values.new_zeros(values.shape[0], 1, 1, 1, self.keys, dtype=_wide(values))
            bias = bias.masked_fill(~initial.key_mask[:, None, None, None], torch.finfo(bias.dtype).min / 2)
        self.bias = bias

    def recall(self, queries: InitialCondition) -> Recall:
        return _ExactRecall(self, queries)

    def select(self, sentences: Int[Tensor, " kept"], values: Float[Tensor, "kept heads k part"] | None) -> None:
        assert values is not None
        self.sentences = len(sentences)
        self.head_keys, self.values = self.head_keys[sentences], values
        self.bias = None if self.bias is None else self.bias[sentences]
        self.sighted = None if self.sighted is None else self.sighted[sentences]

    def tensors(self) -> list[Tensor]:
        return [self.head_keys, self.values, *([] if self.bias is None else [self.bias])]


class _ExactRecall(Recall):
    def __init__(self, memory: ExactMemory, initial: InitialCondition):
        scores = (initial.scaled_queries @ memory.head_keys.mT).to(_wide(initial.queries))[:, :, None]
        weights = (scores if memory.bias is None else scores + memory.bias).softmax(-1)
        if memory.sighted is not None:
            weights = weights * memory.sighted[:, :, None, None, None].to(weights.dtype)
        self.weights = weights
        mixed = weights.flatten(2, 3).to(memory.values.dtype) @ memory.values
        self.mixed = mixed.unflatten(2, weights.shape[2:4])

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return self.weights[:, :, min(l, self.weights.shape[2]) - 1]


class LinearMemory(Memory):
    """Sums over the memory for each depth: their size does not depend on its length."""

    def __init__(self, initial: InitialCondition, settings: Settings, values: Float[Tensor, "batch heads k part"]):
        self._see(initial)
        self.settings = settings
        with torch.autocast(values.device.type, enabled=False):
            features, log_weights = key_features(initial, settings)
            weights = relative_weights(log_weights)
            self.sums = torch.einsum("bhkf,lbhk->bhfl", features, weights)
            weighed = values.to(features.dtype) * weights[..., None]
            self.summed: Float[Tensor, "batch heads #depth f part"] = (features.mT @ weighed).movedim(0, 2)

    def recall(self, queries: InitialCondition) -> Recall:
        return _LinearRecall(self, queries)

    def select(self, sentences: Int[Tensor, " kept"], values: Float[Tensor, "kept heads k part"] | None) -> None:
        self.sentences = len(sentences)
        self.sums, self.summed = self.sums[sentences], self.summed[sentences]
        self.sighted = None if self.sighted is None else self.sighted[sentences]

    def tensors(self) -> list[Tensor]:
        return [self.sums, self.summed]


class _LinearRecall(Recall):
    def __init__(self, memory: LinearMemory, initial: InitialCondition):
        with torch.autocast(initial.queries.device.type, enabled=False):
            features = query_features(initial, memory.settings)
            weights = inverse(features @ memory.sums).mT[..., None]
            self.mixed = ((features[:, :, None] @ memory.summed) * weights).to(initial.queries.dtype)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        raise ValueError("sums over the memory do not tell attention to it: use no cache to see the linear backend's")


def remember(
    backend: str, initial: InitialCondition, settings: Settings, values: Float[Tensor, "batch heads k part"]
) -> Memory:
    """A memory for a backend; all exact ones share theirs. `values` serve every depth."""
    return LinearMemory(initial, settings, values) if backend == "linear" else ExactMemory(initial, values)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
