"""`linear`: feature maps that evolve with depth, the paper's future work. Approximate, in O(n).

    exp(q.k) ~ phi(q).phi(k)   gives   Softmax(A0 + b^l)_ij ~ phi(q_i) . (exp(b^l_j) phi(k_j)) / D^l_i

so exp(b^l_j) phi(k_j) is a feature map that evolves with depth, while phi(Q) and phi(K) are computed once per block.

The logarithm of a key's largest feature is added to its drift; causal attention is scaled by earlier keys only.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ..features import elu_features, orthogonal_features, positive_features
from ..initial import InitialCondition, at_least_float32
from ..masks import reciprocal_or_zero
from ..settings import EvolutionSettings, FeatureMap
from .backend import Backend, Evolution
from .state import PreparedEvolution, PreparedKeys, Stream

CHUNK = 128
LOWEST = -1e30


def query_features(initial: InitialCondition, feature_map: FeatureMap) -> Float[Tensor, "batch heads q features"]:
    q = initial.scaled_queries.to(at_least_float32(initial.queries.dtype))
    if feature_map == "elu":
        return elu_features(q)[0]
    assert initial.features is not None
    return positive_features(q / math.sqrt(initial.scale), initial.features)[0]


def key_features(
    initial: InitialCondition, feature_map: FeatureMap
) -> tuple[Float[Tensor, "batch heads k features"], Float[Tensor, "#depth batch heads k"]]:
    """phi(k), and the logarithm of each key's weight at each depth: its drift plus the log scale of phi."""
    drift = initial.drift
    k = initial.head_keys.to(at_least_float32(initial.keys.dtype))
    if feature_map == "elu":
        features, log = elu_features(k)
    else:
        assert initial.features is not None
        features, log = positive_features(k * math.sqrt(initial.scale), initial.features)
    log_weights = log[None] if drift is None else log + drift.to(k.dtype)
    if initial.key_padding_mask is not None:
        log_weights = log_weights.masked_fill(initial.key_padding_mask[:, None], -torch.inf)
    return features, log_weights


def relative_weights(log_weights: Float[Tensor, "*depth batch heads k"]) -> Float[Tensor, "*depth batch heads k"]:
    """Weights scaled so that the largest is 1; 0 for keys to ignore."""
    highest = log_weights.detach().amax(-1, keepdim=True)
    return torch.exp(log_weights - highest.masked_fill(highest.isinf(), 0.0))


@dataclass
class Carry:
    """All earlier keys of one depth: the sums of features times values and of features, and their log scale."""

    values: Float[Tensor, "batch heads features part"]
    features: Float[Tensor, "batch heads features"]
    scale: Float[Tensor, "batch heads"]


class LinearEvolution(Evolution):
    """Bidirectional, or causal in chunks; causal attention can continue from the carries of earlier tokens."""

    def __init__(self, initial: InitialCondition, feature_map: FeatureMap, carries: dict[int, Carry] | None = None):
        self.initial, self.carries = initial, carries
        self.dtype = at_least_float32(initial.queries.dtype)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.q = query_features(initial, feature_map)
            self.k, self.log_weights = key_features(initial, feature_map)
            if not initial.causal:
                self._weigh()

    def _weigh(self) -> None:
        """Computes the weights and normalizers of all depths."""
        self.weights = relative_weights(self.log_weights)
        sums = torch.einsum("bhkf,lbhk->bhfl", self.k, self.weights)
        self.inverse = reciprocal_or_zero(self.q @ sums)

    def _at(self, l: int) -> int:
        return min(l, len(self.log_weights)) - 1

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        with torch.autocast(values.device.type, enabled=False):
            wide = values.to(self.dtype)
            y = self._causal(wide, l) if self.initial.causal else self._whole(wide, l)
        return y.to(values.dtype)

    def _whole(self, values: Tensor, l: int) -> Tensor:
        at = self._at(l)
        summed = self.k.mT @ (values * self.weights[at][..., None])
        return (self.q @ summed) * self.inverse[..., at, None]

    def _causal(self, values: Tensor, l: int) -> Tensor:
        batch, heads, n, part = values.shape
        carry = None if self.carries is None else self.carries.get(l)
        if carry is None:
            features = self.k.shape[-1]
            carry = Carry(
                values.new_zeros(batch, heads, features, part),
                values.new_zeros(batch, heads, features),
                values.new_full((batch, heads), LOWEST),
            )
        log_weights = self.log_weights[self._at(l)].clamp(min=LOWEST)
        found = []
        for start in range(0, n, CHUNK):
            chunk = slice(start, start + CHUNK)
            y, carry = _chunk(
                self.q[:, :, chunk], self.k[:, :, chunk], values[:, :, chunk], log_weights[..., chunk], carry
            )
            found.append(y)
        if self.carries is not None:
            self.carries[l] = carry
        return torch.cat(found, 2)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The approximate attention matrix."""
        if self.carries is not None:
            raise ValueError("attention backend 'linear' cannot return attention to cached tokens: disable the cache")
        weights = relative_weights(self.log_weights[self._at(l)])
        matrix = (self.q @ self.k.mT) * weights[..., None, :]
        if self.initial.causal:
            matrix = matrix.tril()
        return matrix * reciprocal_or_zero(matrix.sum(-1, keepdim=True))


def _chunk(q: Tensor, k: Tensor, values: Tensor, log_weights: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    """Causal attention of one chunk to itself and, through the carry, to everything before it."""
    real = log_weights > LOWEST
    scale = torch.maximum(log_weights.detach().cummax(-1).values, carry.scale[..., None])
    within = torch.exp((log_weights[..., None, :] - scale[..., :, None]).clamp(max=0.0)) * real[..., None, :]
    matrix = ((q @ k.mT) * within).tril()
    before = torch.exp(carry.scale[..., None] - scale)
    numerator = matrix @ values + before[..., None] * (q @ carry.values)
    normalizer = matrix.sum(-1) + before * (q @ carry.features[..., None]).squeeze(-1)
    last = scale[..., -1]
    weights = torch.exp(log_weights - last[..., None]) * real
    rescale = torch.exp(carry.scale - last)
    return numerator * reciprocal_or_zero(normalizer)[..., None], Carry(
        carry.values * rescale[..., None, None] + k.mT @ (values * weights[..., None]),
        carry.features * rescale[..., None] + (k.mT @ weights[..., None]).squeeze(-1),
        last,
    )


class LinearStream(Stream):
    """For each depth, sums of features and of features times values: O(1) memory."""

    croppable = False

    def __init__(self, feature_map: FeatureMap):
        self.feature_map: FeatureMap = feature_map
        self.carries: dict[int, Carry] = {}

    def _evolution(self, initial: InitialCondition) -> Evolution:
        return LinearEvolution(initial, self.feature_map, self.carries)

    def _reorder(self, parents: Tensor, width: int) -> None:
        for l, carry in self.carries.items():
            self.carries[l] = Carry(carry.values[parents], carry.features[parents], carry.scale[parents])

    def _select(self, sentences: Tensor, rows: Tensor) -> None:
        self._reorder(rows, 1)

    def truncate(self, length: int) -> None:
        if length != self.length:
            raise ValueError("attention backend 'linear' cannot drop past tokens: it stores only their sums")

    def tensors(self) -> list[Tensor]:
        return [part for carry in self.carries.values() for part in (carry.values, carry.features, carry.scale)]


class LinearKeys(PreparedKeys):
    """Sums over the source for each depth; their size does not depend on its length."""

    def __init__(self, initial: InitialCondition, feature_map: FeatureMap, values: Float[Tensor, "batch heads k part"]):
        super().__init__(initial)
        self.feature_map: FeatureMap = feature_map
        with torch.autocast(values.device.type, enabled=False):
            features, log_weights = key_features(initial, feature_map)
            weights = relative_weights(log_weights)
            self.sums = torch.einsum("bhkf,lbhk->bhfl", features, weights)
            weighted = values.to(features.dtype) * weights[..., None]
            self.summed: Float[Tensor, "batch heads #depth f part"] = (features.mT @ weighted).movedim(0, 2)

    def attend(self, initial: InitialCondition) -> "LinearPreparedEvolution":
        return LinearPreparedEvolution(self, initial)

    def _select(self, sentences: Tensor, values: Tensor) -> None:
        self.sums, self.summed = self.sums[sentences], self.summed[sentences]

    def tensors(self) -> list[Tensor]:
        return [self.sums, self.summed]


class LinearPreparedEvolution(PreparedEvolution):
    def __init__(self, keys: LinearKeys, initial: InitialCondition):
        with torch.autocast(initial.queries.device.type, enabled=False):
            features = query_features(initial, keys.feature_map)
            weights = reciprocal_or_zero(features @ keys.sums).mT[..., None]
            self.mixed = ((features[:, :, None] @ keys.summed) * weights).to(initial.queries.dtype)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        raise ValueError("attention backend 'linear' cannot return attention to a cached source: disable the cache")


@dataclass(frozen=True)
class LinearBackend(Backend):
    """`features` random features per head, drawn from `feature_seed` (`feature_map` "positive"), or elu(x) + 1."""

    name = "linear"
    idea = "temporally evolving random features"
    complexity = "L n f d, f features per head"
    streams = True
    remembers = True
    redraws = True

    features: int = EvolutionSettings.num_features
    feature_map: FeatureMap = EvolutionSettings.feature_map
    feature_seed: int = EvolutionSettings.feature_seed
    redraw_interval: int = EvolutionSettings.feature_redraw_interval

    def begin(self, initial: InitialCondition) -> LinearEvolution:
        return LinearEvolution(initial, self.feature_map)

    def stream(self, limit: int | None = None) -> LinearStream:
        return LinearStream(self.feature_map)

    def remember(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]) -> LinearKeys:
        return LinearKeys(initial, self.feature_map, values)

    def draw(self, width: int, number: int = 0) -> Float[Tensor, "features width"] | None:
        if self.feature_map == "elu":
            return None
        return orthogonal_features(self.features, width, self.feature_seed + number)
