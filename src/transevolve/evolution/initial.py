"""The initial condition of a block (paper, equations 6 and 12): everything attention needs, computed once.

With Q = X Wq and K = Y Wk at the full width d + d' (Y = X in self attention, the encoder's output in cross attention),
and Q_h, K_h the slices of head h:

    A0[h] = Q_h K_h^T / sqrt(d/m)         `initial_scores`
    A1[h] = Q Wk~_h^T                     `row_operator`
    A2[h] = K Wq~_h^T                     `key_operator`
    A3[h] = diagonal of Wq~_h Wk~_h^T     `constant_operator`

Differs from the paper: softmax ignores what is constant along a row, so the A1 and A3 terms of equation 9 cancel
exactly and only the key drift b^l = A2 T^l remains (`key_drift`). Only the `literal` backend forms A1 and A3.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .masks import visible_keys


def split_heads(x: Float[Tensor, "batch n width"], heads: int) -> Float[Tensor, "batch heads n part"]:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads n part"]) -> Float[Tensor, "batch n width"]:
    return x.transpose(1, 2).flatten(2)


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """The dtype of softmax, drift and normalizers."""
    return torch.promote_types(dtype, torch.float32)


def initial_scores(
    scaled_queries: Float[Tensor, "batch heads q part"], keys: Float[Tensor, "batch heads k part"]
) -> Float[Tensor, "batch heads q k"]:
    """A0: the scores that all depths share; the queries are scaled already."""
    return scaled_queries @ keys.mT


def row_operator(
    queries: Float[Tensor, "batch q wide"], temporal_key: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "batch heads q part"]:
    """A1: how depth shifts all scores of a query."""
    return torch.einsum("bqw,hpw->bhqp", queries, temporal_key)


def key_operator(
    keys: Float[Tensor, "batch k wide"], temporal_query: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "batch heads k part"]:
    """A2: how depth shifts the scores of a key, equally for all queries."""
    return torch.einsum("bkw,hpw->bhkp", keys, temporal_query)


def constant_operator(
    temporal_query: Float[Tensor, "heads part wide"], temporal_key: Float[Tensor, "heads part wide"]
) -> Float[Tensor, "heads part"]:
    """A3: the diagonal of Wq~ Wk~^T, the part of the quadratic form that `A3 (T * T)` keeps."""
    return (temporal_query * temporal_key).sum(-1)


def key_drift(
    keys: Float[Tensor, "batch k wide"],
    temporal_query: Float[Tensor, "heads part wide"],
    depth: Float[Tensor, "depth heads part"],
) -> Float[Tensor, "depth batch heads k"]:
    """b^l = A2 T^l for all depths in one product: b^l[h, j] = K_j . u^l_h."""
    drift = keys @ drift_directions(temporal_query, depth).flatten(0, 1).mT
    return drift.unflatten(-1, depth.shape[:2]).permute(2, 0, 3, 1)


def drift_directions(
    temporal_query: Float[Tensor, "heads part wide"], depth: Float[Tensor, "depth heads part"]
) -> Float[Tensor, "depth heads wide"]:
    """u^l_h = T^l_h Wq~_h, on which the keys are projected."""
    return torch.einsum("lhp,hpw->lhw", depth, temporal_query)


class Temporal(NamedTuple):
    """The operators of depth: T^l split into heads, and the temporal projections Wq~ and, if the layer has it, Wk~."""

    depth: Float[Tensor, "depth heads part"]
    query: Float[Tensor, "heads part wide"]
    key: Float[Tensor, "heads part wide"] | None


class InitialCondition(NamedTuple):
    """Q and K of a block, at full width and unscaled, and the masks.

    Args:
        heads: Number of heads, m.
        depth: Number of depths, L.
        scale: Factor of A0.
        value_part: Width of one head's values.
        temporal: Operators of depth; None if attention does not evolve.
        key_padding_mask: True at keys to ignore.
        causal: Whether query i sees only keys j <= i.
        features: Directions of the random features, for backends that use them.
    """

    queries: Float[Tensor, "batch q wide"]
    keys: Float[Tensor, "batch k wide"]
    heads: int
    depth: int
    scale: float
    value_part: int
    temporal: Temporal | None = None
    key_padding_mask: Bool[Tensor, "batch k"] | None = None
    causal: bool = False
    features: Float[Tensor, "features part"] | None = None

    @property
    def scaled_queries(self) -> Float[Tensor, "batch heads q part"]:
        return split_heads(self.queries * self.scale, self.heads)

    @property
    def head_keys(self) -> Float[Tensor, "batch heads k part"]:
        return split_heads(self.keys, self.heads)

    @property
    def drift(self) -> Float[Tensor, "depth batch heads k"] | None:
        """The key drift of every depth in at least float32; None if attention does not evolve."""
        if self.temporal is None:
            return None
        wide = at_least_float32(self.keys.dtype)
        with torch.autocast(self.keys.device.type, enabled=False):
            return key_drift(self.keys.to(wide), self.temporal.query.to(wide), self.temporal.depth.to(wide))

    def visible(self) -> Bool[Tensor, "#batch 1 #q #k"] | None:
        """True where query i may see key j; None where every query sees every key."""
        return visible_keys(self.queries.shape[1], self.key_padding_mask, self.causal, self.queries.device)
