"""The part that all exact backends share: continuing softmax attention, and preparing its keys."""

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition, at_least_float32, initial_scores
from ..reads import read
from .backend import Backend
from .exact_stream import ExactStream
from .state import PreparedEvolution, PreparedKeys


class ExactBackend(Backend):
    """Base of backends that compute softmax attention: a subclass implements `begin` and inherits the rest."""

    exact = True
    streams = True
    remembers = True

    def stream(self, limit: int | None = None) -> ExactStream:
        return ExactStream(limit)

    def remember(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]) -> "ExactKeys":
        return ExactKeys(initial, values)


class ExactKeys(PreparedKeys):
    """Keys, their drift at each depth with the padding mask added to it, and the values, which all blocks share."""

    bias: Float[Tensor, "batch #heads #depth 1 k"] | None

    def __init__(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]):
        super().__init__(initial)
        self.head_keys, self.values = initial.head_keys.contiguous(), values
        drift, mask = initial.drift, initial.key_padding_mask
        bias = None if drift is None else drift.permute(1, 2, 0, 3)[..., None, :].contiguous()
        if mask is not None and read(mask.any(), "padding"):
            if bias is None:
                bias = values.new_zeros(len(values), 1, 1, 1, values.shape[2], dtype=at_least_float32(values.dtype))
            bias = bias.masked_fill(mask[:, None, None, None], torch.finfo(bias.dtype).min / 2)
        self.bias = bias

    def attend(self, initial: InitialCondition) -> "ExactPreparedEvolution":
        return ExactPreparedEvolution(self, initial)

    def _select(self, sentences: Tensor, values: Tensor) -> None:
        self.head_keys, self.values = self.head_keys[sentences], values
        self.bias = None if self.bias is None else self.bias[sentences]

    def tensors(self) -> list[Tensor]:
        return [self.head_keys, self.values, *([] if self.bias is None else [self.bias])]


class ExactPreparedEvolution(PreparedEvolution):
    def __init__(self, keys: ExactKeys, initial: InitialCondition):
        wide = at_least_float32(initial.queries.dtype)
        scores = initial_scores(initial.scaled_queries, keys.head_keys).to(wide)[:, :, None]
        weights = (scores if keys.bias is None else scores + keys.bias).softmax(-1)
        if keys.sees_no_key is not None:
            weights = weights * (~keys.sees_no_key)[:, :, None, None, None].to(weights.dtype)
        self.weights = weights
        mixed = weights.flatten(2, 3).to(keys.values.dtype) @ keys.values
        self.mixed = mixed.unflatten(2, weights.shape[2:4])

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return self.weights[:, :, min(l, self.weights.shape[2]) - 1]
