"""`linear`: temporally evolving feature maps, the paper's future work. An approximation of attention in O(n).

    exp(q.k) ~ phi(q).phi(k)   gives   Softmax(A0 + b^l)_ij ~ phi(q_i) . (exp(b^l_j) phi(k_j)) / D^l_i

so exp(b^l_j) phi(k_j) is a feature map that evolves with depth, while phi(Q) and phi(K) are computed once per block.
phi is FAVOR+ (Choromanski et al., 2021), phi(x) = exp(W x - |x|^2/2) with orthogonal rows of W, or elu(x) + 1
(Katharopoulos et al., 2020), which has a kernel of its own.

Differs from FAVOR+: each key keeps its largest feature apart, as a log weight, next to the drift. No feature of a key
then underflows because another key is large, and causal attention is scaled by what came before, never by the future.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import elu

from ..initial import InitialCondition
from .backend import Evolution, Settings

COMPLEXITY = "L n f d, f features a head"
CHUNK = 128
HIDDEN = -1e30
FLOOR = 1e-6


def orthogonal_features(features: int, width: int, seed: int) -> Float[Tensor, "features width"]:
    """Rows as long as Gaussian ones, orthogonal to each other in groups of `width`."""
    random = np.random.RandomState(seed)
    rows = []
    for _ in range(math.ceil(features / width)):
        square, triangle = np.linalg.qr(random.standard_normal((width, width)))
        rows.append((square * np.sign(np.diag(triangle))).T)
    lengths = np.linalg.norm(random.standard_normal((features, width)), axis=1)
    return torch.from_numpy(np.concatenate(rows)[:features] * lengths[:, None]).float()


def positive_features(
    x: Float[Tensor, "*batch n width"], projection: Float[Tensor, "features width"]
) -> tuple[Float[Tensor, "*batch n features"], Float[Tensor, "*batch n"]]:
    """exp(W x - |x|^2/2) as (features of which the largest is 1, logarithm of what was taken out).

    `FLOOR` is Performer's own safeguard: no query is ever orthogonal to all keys.
    """
    log = x @ projection.mT.to(x.dtype) - x.square().sum(-1, keepdim=True) / 2
    largest = log.detach().amax(-1, keepdim=True)
    return torch.exp(log - largest) + FLOOR, largest.squeeze(-1)


def elu_features(x: Float[Tensor, "*batch n width"]) -> tuple[Tensor, Float[Tensor, "*batch n"]]:
    return elu(x) + 1, x.new_zeros(x.shape[:-1])


def query_features(initial: InitialCondition, settings: Settings) -> Float[Tensor, "batch heads q features"]:
    q = initial.scaled_queries.to(torch.promote_types(initial.queries.dtype, torch.float32))
    if settings.feature_map == "elu":
        return elu_features(q)[0]
    assert initial.projection is not None
    return positive_features(q / math.sqrt(initial.scale), initial.projection)[0]


def key_features(
    initial: InitialCondition, settings: Settings
) -> tuple[Float[Tensor, "batch heads k features"], Float[Tensor, "#depth batch heads k"]]:
    """phi(k), and the logarithm of each key's weight at each depth: its drift, and what was taken out of phi."""
    drift = initial.drift
    k = initial.head_keys.to(torch.promote_types(initial.keys.dtype, torch.float32))
    if settings.feature_map == "elu":
        features, log = elu_features(k)
    else:
        assert initial.projection is not None
        features, log = positive_features(k * math.sqrt(initial.scale), initial.projection)
    log_weights = log[None] if drift is None else log + drift.to(k.dtype)
    if initial.key_mask is not None:
        log_weights = log_weights.masked_fill(~initial.key_mask[:, None], -torch.inf)
    return features, log_weights


def relative_weights(log_weights: Float[Tensor, "*depth batch heads k"]) -> Float[Tensor, "*depth batch heads k"]:
    """Weights of which the largest is 1; 0 where there is no key."""
    highest = log_weights.detach().amax(-1, keepdim=True)
    return torch.exp(log_weights - highest.masked_fill(highest.isinf(), 0.0))


@dataclass
class Carry:
    """What one depth remembers of all keys before: sums of features times values, of features, and their log scale."""

    values: Float[Tensor, "batch heads features part"]
    features: Float[Tensor, "batch heads features"]
    scale: Float[Tensor, "batch heads"]


class LinearEvolution(Evolution):
    """Bidirectional, or causal in chunks; a causal one may continue from the carries of an earlier stretch."""

    def __init__(self, initial: InitialCondition, settings: Settings, carries: dict[int, Carry] | None = None):
        self.initial, self.carries = initial, carries
        self.dtype = torch.promote_types(initial.queries.dtype, torch.float32)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.q = query_features(initial, settings)
            self.k, self.log_weights = key_features(initial, settings)
            if not initial.causal:
                self._weigh()

    def _weigh(self) -> None:
        """Weights and normalisers of all depths at once."""
        self.weights = relative_weights(self.log_weights)
        sums = torch.einsum("bhkf,lbhk->bhfl", self.k, self.weights)
        self.inverse = inverse(self.q @ sums)

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
                values.new_full((batch, heads), HIDDEN),
            )
        log_weights = self.log_weights[self._at(l)].clamp(min=HIDDEN)
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
        """The matrix this approximation amounts to."""
        if self.carries is not None:
            raise ValueError("sums of the past do not tell its attention: use no cache to see the linear backend's")
        weights = relative_weights(self.log_weights[self._at(l)])
        matrix = (self.q @ self.k.mT) * weights[..., None, :]
        if self.initial.causal:
            matrix = matrix.tril()
        return matrix * inverse(matrix.sum(-1, keepdim=True))


def inverse(normaliser: Tensor) -> Tensor:
    """1/D, and 0 where no key is seen."""
    return torch.where(normaliser > 0, 1 / normaliser.clamp(min=torch.finfo(normaliser.dtype).tiny), 0.0)


def _chunk(q: Tensor, k: Tensor, values: Tensor, log_weights: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    """Causal attention of one chunk to itself and, through the carry, to everything before it."""
    real = log_weights > HIDDEN
    scale = torch.maximum(log_weights.detach().cummax(-1).values, carry.scale[..., None])
    within = torch.exp((log_weights[..., None, :] - scale[..., :, None]).clamp(max=0.0)) * real[..., None, :]
    matrix = ((q @ k.mT) * within).tril()
    before = torch.exp(carry.scale[..., None] - scale)
    numerator = matrix @ values + before[..., None] * (q @ carry.values)
    normaliser = matrix.sum(-1) + before * (q @ carry.features[..., None]).squeeze(-1)
    last = scale[..., -1]
    weights = torch.exp(log_weights - last[..., None]) * real
    kept = torch.exp(carry.scale - last)
    return numerator * inverse(normaliser)[..., None], Carry(
        carry.values * kept[..., None, None] + k.mT @ (values * weights[..., None]),
        carry.features * kept[..., None] + (k.mT @ weights[..., None]).squeeze(-1),
        last,
    )


def begin(initial: InitialCondition, settings: Settings) -> LinearEvolution:
    return LinearEvolution(initial, settings)
