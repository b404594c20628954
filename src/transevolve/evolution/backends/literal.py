"""`literal`: the paper's equation 9, term by term, at every depth. Slow; the other backends are tested against it."""

from jaxtyping import Float
from torch import Tensor, finfo

from ..initial import (
    InitialCondition,
    at_least_float32,
    constant_operator,
    initial_scores,
    key_operator,
    row_operator,
)
from .backend import Evolution
from .exact import ExactBackend


class LiteralEvolution(Evolution):
    """Softmax(A0 + A1 T^l + (A2 T^l)^T + A3 (T^l * T^l)), where A1 and A3 exist only if the layer has Wk~."""

    def __init__(self, initial: InitialCondition):
        self.initial = initial
        self.a0 = initial_scores(initial.scaled_queries, initial.head_keys)
        self.visible = initial.visible()
        self.temporal = temporal = initial.temporal
        if temporal is not None:
            self.a2 = key_operator(initial.keys, temporal.query)
            if temporal.key is not None:
                self.a1 = row_operator(initial.queries, temporal.key)
                self.a3 = constant_operator(temporal.query, temporal.key)

    def scores(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The argument of the softmax."""
        if self.temporal is None:
            return self.a0
        t = self.temporal.depth[l - 1]
        scores = self.a0 + (self.a2 * t[:, None]).sum(-1)[..., None, :]
        if self.temporal.key is not None:
            scores = scores + (self.a1 * t[:, None]).sum(-1)[..., None]
            scores = scores + (self.a3 * t * t).sum(-1)[:, None, None]
        return scores

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        scores = self.scores(l)
        wide = at_least_float32(scores.dtype)
        if self.visible is None:
            return scores.softmax(-1, dtype=wide)
        scores = scores.masked_fill(~self.visible, finfo(scores.dtype).min)
        return scores.softmax(-1, dtype=wide).masked_fill(~self.visible, 0.0)

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        return self.attention(l).to(values.dtype) @ values


class ExactEvolution(Evolution):
    """Base of exact evolutions that keep no matrix of a depth; `attention` computes it from the equation."""

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return LiteralEvolution(self.initial).attention(l)


class LiteralBackend(ExactBackend):
    name = "literal"
    idea = "the paper's equation 9, term by term, at every depth"
    complexity = "L (n^2 d + n^2 exponentials)"

    def begin(self, initial: InitialCondition) -> LiteralEvolution:
        return LiteralEvolution(initial)
