"""Which keys a query may see, from one mask: `key_padding_mask`, True at keys to ignore."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def visible_keys(
    queries: int, key_padding_mask: Bool[Tensor, "batch k"] | None, causal: bool, device: torch.device
) -> Bool[Tensor, "#batch 1 #q #k"] | None:
    """True where query i may see key j; None where every query sees every key."""
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None, :]
    if causal:
        past = torch.ones(queries, queries, dtype=torch.bool, device=device).tril()[None, None]
        mask = past if mask is None else mask & past
    return mask


def sees_no_key(key_padding_mask: Bool[Tensor, "batch k"] | None, causal: bool) -> Bool[Tensor, "batch #q"] | None:
    """True where a query has no key to attend to; None where every query has one."""
    if key_padding_mask is None:
        return None
    if causal:
        return (~key_padding_mask).cumsum(-1) == 0
    return key_padding_mask.all(-1, keepdim=True)


def reciprocal_or_zero(normalizer: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """1 / normalizer, and 0 where a query sees no key; its gradient is finite everywhere."""
    return torch.where(normalizer > 0, 1 / normalizer.clamp(min=torch.finfo(normalizer.dtype).tiny), 0.0)
