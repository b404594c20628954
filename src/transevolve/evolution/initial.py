"""The initial condition of a block (paper, equations 6 and 12): everything attention needs, computed once.

With Q = X Wq and K = Y Wk at the full width d + d', head h's slice Q_h, K_h, and T^l the map of depth:

    A0[h] = Q_h K_h^T / sqrt(d/m)      A1[h] = Q Wk~_h^T
    A2[h] = K Wq~_h^T                  A3[h] = diagonal of Wq~_h Wk~_h^T

and the attention of depth l is Softmax(A0 + A1 T^l + (A2 T^l)^T + A3 (T^l * T^l)).

Differs from the paper: softmax does not see what is constant along a row, so the A1 and A3 terms cancel exactly.
What is left of them is the key drift b^l = A2 T^l; only the `literal` backend ever forms A1 and A3.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def split_heads(x: Float[Tensor, "batch n width"], heads: int) -> Float[Tensor, "batch heads n part"]:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads n part"]) -> Float[Tensor, "batch n width"]:
    return x.transpose(1, 2).flatten(2)


def row_operator(
    queries: Float[Tensor, "batch q wide"], temporal_key: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "batch heads q part"]:
    """A1: how depth moves all the scores of one query together."""
    return torch.einsum("bqw,hpw->bhqp", queries, temporal_key)


def key_operator(
    keys: Float[Tensor, "batch k wide"], temporal_query: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "batch heads k part"]:
    """A2: how depth moves the score of one key, for every query alike."""
    return torch.einsum("bkw,hpw->bhkp", keys, temporal_query)


def constant_operator(
    temporal_query: Float[Tensor, "heads part wide"], temporal_key: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "heads part"]:
    """A3: the diagonal of Wq~ Wk~^T, which is what `A3 (T * T)` keeps of the quadratic form."""
    return (temporal_query * temporal_key).sum(-1)


def key_drift(
    keys: Float[Tensor, "batch k wide"],
    temporal_query: Float[Tensor, "heads part wide"],
    depth: Float[Tensor, "depth heads part"],
) -> Float[Tensor, "depth batch heads k"]:
    """b^l = A2 T^l for all depths in one product: b^l[h, j] = K_j . u^l_h with u^l_h = T^l_h Wq~_h."""
    directions = torch.einsum("lhp,hpw->lhw", depth, temporal_query)
    drift = keys @ directions.flatten(0, 1).mT
    return drift.unflatten(-1, depth.shape[:2]).permute(2, 0, 3, 1)


class Temporal(NamedTuple):
    """The operators of depth: T^l split in heads, and the temporal projections Wq~ and (if carried) Wk~."""

    depth: Float[Tensor, "depth heads part"]
    query: Float[Tensor, "heads part wide"]
    key: Float[Tensor, "heads part wide"] | None


class InitialCondition(NamedTuple):
    """Q and K of a block, at full width and unscaled, with what says which keys may be seen.

    `key_mask` is True where a key is real. `causal` lets query i see keys j <= i. `projection` draws random features.
    """

    queries: Float[Tensor, "batch q wide"]
    keys: Float[Tensor, "batch k wide"]
    heads: int
    depth: int
    scale: float
    temporal: Temporal | None
    key_mask: Bool[Tensor, "batch k"] | None
    causal: bool
    projection: Float[Tensor, "features part"] | None = None

    @property
    def scaled_queries(self) -> Float[Tensor, "batch heads q part"]:
        return split_heads(self.queries * self.scale, self.heads)

    @property
    def head_keys(self) -> Float[Tensor, "batch heads k part"]:
        return split_heads(self.keys, self.heads)

    @property
    def drift(self) -> Float[Tensor, "depth batch heads k"] | None:
        """The key drift of every depth, or None where attention does not evolve; float32 at least."""
        if self.temporal is None:
            return None
        wide = torch.promote_types(self.keys.dtype, torch.float32)
        with torch.autocast(self.keys.device.type, enabled=False):
            return key_drift(self.keys.to(wide), self.temporal.query.to(wide), self.temporal.depth.to(wide))

    def visible(self) -> Bool[Tensor, "#batch 1 #q #k"] | None:
        """True where query i may see key j; None where every query sees every key."""
        mask = None if self.key_mask is None else self.key_mask[:, None, None, :]
        if self.causal:
            n = self.queries.shape[1]
            past = torch.ones(n, n, dtype=torch.bool, device=self.queries.device).tril()
            mask = past[None, None] if mask is None else mask & past
        return mask

    def sighted(self) -> Bool[Tensor, "batch #q"] | None:
        """True where a query sees at least one key; None where all do."""
        if self.key_mask is None:
            return None
        if self.causal:
            return self.key_mask.cumsum(-1) > 0
        return self.key_mask.any(-1, keepdim=True)
