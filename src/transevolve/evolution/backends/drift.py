"""Factoring the drift out of the softmax: Softmax(A0 + b) = P w / sum(P w), with P = Softmax(A0) and w = exp(b).

This is exact up to rounding while b ranges over at most `SAFE_RANGE` across the keys; beyond it w might underflow.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..reads import negative

SAFE_RANGE = 50.0


def is_separable(
    initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None, limit: float = SAFE_RANGE
) -> bool:
    """Whether the drift may be factored out: its range is below `limit` in every sequence, head and depth."""
    if drift is None:
        return True
    if initial.causal:
        limit = min(limit, SAFE_RANGE / 2)
    return negative(drift_range(initial, drift) - limit)


def shared_limit(dtype: torch.dtype, keys: int) -> float:
    """The range up to which P may be shared by all depths: in float16, as long as the entries of P that it rounds to
    zero are negligible for this many keys."""
    return 29 * math.log(2) - math.log(keys) if dtype == torch.float16 else SAFE_RANGE


def drift_range(initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"]) -> Float[Tensor, ""]:
    """The largest max b - min b over the keys of a sequence, head and depth."""
    drift = drift.detach().float()
    if initial.key_padding_mask is None:
        return (drift.amax(-1) - drift.amin(-1)).max()
    masked = initial.key_padding_mask[:, None]
    highest, lowest = drift.masked_fill(masked, -torch.inf), drift.masked_fill(masked, torch.inf)
    return (highest.amax(-1) - lowest.amin(-1)).max()


def drift_weights(
    initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None, dtype: torch.dtype
) -> Float[Tensor, "#depth batch heads k"]:
    """w^l = exp(b^l - max b^l), 0 at padded keys; all ones without drift."""
    return torch.exp(drift_log_weights(initial, drift, dtype))


def drift_log_weights(
    initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None, dtype: torch.dtype
) -> Float[Tensor, "#depth batch heads k"]:
    """b^l - max b^l, -inf at padded keys.

    In causal attention the drift of the first key replaces the maximum, which would depend on later keys.
    """
    if drift is None:
        batch, keys, _ = initial.keys.shape
        drift = initial.keys.new_zeros(1, batch, initial.heads, keys)
    drift = drift.to(dtype)
    mask = initial.key_padding_mask
    if mask is not None:
        drift = drift.masked_fill(mask[:, None], -torch.inf)
    if not initial.causal:
        level = drift.detach().amax(-1, keepdim=True)
    elif mask is None:
        level = drift.detach()[..., :1]
    else:
        first = first_key(mask)[None, :, None, None].expand(*drift.shape[:-1], 1)
        level = drift.detach().gather(-1, first)
    return drift - level.masked_fill(level.isinf(), 0.0)


def first_key(key_padding_mask: Tensor) -> Tensor:
    """The first key of each sequence that is not padding; 0 if all are."""
    return (~key_padding_mask).int().argmax(-1)
