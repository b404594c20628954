"""`fused`: attention at every depth without an n x n matrix. Exact.

On a CPU, each depth computes the matrix of `once` again, in pieces that fit in the cache (`shared`): there PyTorch's
kernel is no faster, and `once` needs the gradient of the scores only once per block. Elsewhere each depth is a call of
PyTorch's scaled dot product attention:

    Softmax(A0 + b^l) V = SDPA(q, k, [w^l V, w^l]), divided by its last channel,     w^l = exp(b^l - max b^l)

q, k and v are padded to one width, as fused kernels require. A padded key has weight 0 and is masked; in causal
attention, where kernels take no mask, it is replaced by a copy of a real key, so its score is never a row's maximum.

If the range of the drift is too large for w^l, short rows on a CPU are left to `stored`. For others, and where a graph
cannot branch on the range, the drift is a channel of the keys:

    Softmax(A0 + b^l) = Softmax([q/sqrt(d/m), 1] . [k, b^l])

Widths are padded to a multiple of 8. A padded key gets a drift far below any score.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ..initial import InitialCondition, at_least_float32
from ..masks import reciprocal_or_zero, sees_no_key
from .backend import Evolution
from .drift import SAFE_RANGE, drift_weights, first_key, is_separable, shared_limit
from .exact import ExactBackend
from .literal import ExactEvolution
from .products import compute_dtype
from .shared import SharedEvolution
from .stored import StoredEvolution, suits

ALIGNMENT = 8
HALF_RANGE = 5.0


class WeightedEvolution(ExactEvolution):
    """The drift as weights of the values."""

    def __init__(self, initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None):
        self.initial, self.dtype = initial, compute_dtype(initial.queries)
        mask, keys = initial.key_padding_mask, initial.head_keys
        self.visible = None
        if mask is not None and initial.causal:
            rows = torch.arange(len(mask), device=mask.device)
            first = keys.detach()[rows, :, first_key(mask)][:, :, None]
            keys = torch.where(mask[:, None, :, None], first, keys)
        elif mask is not None:
            places = torch.arange(mask.shape[1], device=mask.device)
            self.visible = (~mask | (places == first_key(mask)[:, None]))[:, None, None]
        width = -(-max(keys.shape[-1], initial.value_part + 1) // ALIGNMENT) * ALIGNMENT
        self.queries, self.keys = (
            pad(x.to(self.dtype), (0, width - x.shape[-1])) for x in (initial.scaled_queries, keys)
        )
        self.weights = None
        if drift is not None or mask is not None:
            self.weights = drift_weights(initial, drift, at_least_float32(self.dtype))

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        part = values.shape[-1]
        if self.weights is not None:
            w = self.weights[min(l, len(self.weights)) - 1][..., None]
            values = torch.cat([values * w, w], -1)
        values = pad(values.to(self.dtype), (0, self.keys.shape[-1] - values.shape[-1]))
        y = scaled_dot_product_attention(
            self.queries, self.keys, values, self.visible, is_causal=self.initial.causal, scale=1.0
        )
        if self.weights is None:
            return y[..., :part]
        normalizer = y[..., part, None].to(self.weights.dtype)
        return (y[..., :part] * reciprocal_or_zero(normalizer)).to(self.dtype)


class FusedEvolution(ExactEvolution):
    """The drift as a channel of the keys, exact at any range."""

    def __init__(self, initial: InitialCondition):
        self.initial = initial
        self.queries, self.keys = initial.scaled_queries, initial.head_keys
        self.dtype = compute_dtype(self.queries)
        self.drift = initial.drift
        self.sees_no_key = sees_no_key(initial.key_padding_mask, initial.causal)
        self.channels = 0 if self.drift is None and initial.key_padding_mask is None else _parts(self.dtype)
        part = self.queries.shape[-1]
        self.width = -(-max(part + self.channels, initial.value_part) // ALIGNMENT) * ALIGNMENT
        ones = self.queries.new_ones(()).expand(*self.queries.shape[:-1], self.channels)
        spare = self.width - part - self.channels
        self.padded_queries = pad(torch.cat([self.queries, ones], -1), (0, spare)).to(self.dtype)

    def _keys(self, l: int) -> Float[Tensor, "batch heads k width"]:
        if not self.channels:
            return pad(self.keys, (0, self.width - self.keys.shape[-1])).to(self.dtype)
        shape = self.keys.shape[:-1]
        drift = self.keys.new_zeros(shape) if self.drift is None else self.drift[l - 1]
        if self.initial.key_padding_mask is not None:
            lowest = torch.finfo(self.dtype).min / 4 if self.dtype == torch.float16 else -1e30
            drift = drift.masked_fill(self.initial.key_padding_mask[:, None], lowest)
        columns = torch.stack(_split(drift.float() if self.channels > 1 else drift, self.channels, self.dtype), -1)
        spare = self.width - self.keys.shape[-1] - self.channels
        return pad(torch.cat([self.keys.to(self.dtype), columns.to(self.dtype)], -1), (0, spare))

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        part = values.shape[-1]
        v = pad(values.to(self.dtype), (0, self.width - part))
        y = scaled_dot_product_attention(
            self.padded_queries, self._keys(l), v, is_causal=self.initial.causal, scale=1.0
        )[..., :part]
        return y if self.sees_no_key is None else y * (~self.sees_no_key)[:, None, :, None].to(y.dtype)


def _parts(dtype: torch.dtype) -> int:
    """How many numbers of `dtype` represent a float32 drift exactly."""
    return {torch.bfloat16: 3, torch.float16: 2}.get(dtype, 1)


def _split(x: Tensor, parts: int, dtype: torch.dtype) -> list[Tensor]:
    """x as a sum of `parts` numbers of `dtype`; only the first has a gradient."""
    if parts == 1:
        return [x]
    found = [x.to(dtype)]
    rest = x.detach() - found[0].detach().float()
    for _ in range(parts - 1):
        found.append(rest.to(dtype))
        rest = rest - found[-1].float()
    return found


def at_any_range(initial: InitialCondition) -> ExactEvolution:
    """The faster of the forms that do not factor the drift out of the softmax."""
    return StoredEvolution(initial) if suits(initial) else FusedEvolution(initial)


class FusedBackend(ExactBackend):
    name = "fused"
    idea = "attention computed again at every depth: no matrix is stored"
    complexity = "L (n^2 d + n^2 exponentials), memory n"
    recomputing: ClassVar[frozenset[str]] = frozenset({"cpu"})
    """Devices on which P is computed again at each depth."""

    def begin(self, initial: InitialCondition) -> Evolution:
        if torch.compiler.is_compiling():
            return FusedEvolution(initial)
        drift, dtype = initial.drift, compute_dtype(initial.queries)
        if initial.queries.device.type in self.recomputing:
            if is_separable(initial, drift, shared_limit(dtype, initial.keys.shape[1])):
                return SharedEvolution(initial, drift, keep=False)
        elif is_separable(initial, drift, HALF_RANGE if dtype == torch.float16 else SAFE_RANGE):
            return WeightedEvolution(initial, drift)
        return at_any_range(initial)
