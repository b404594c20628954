"""A0 of a block, stored, and a softmax at each depth: exact at any range of the drift. For short rows on CPUs.

    Softmax(A0 + b^l) V

`auto` chooses it for the shortest rows. `once` and `fused` use it for short rows if the drift ranges too far to be
factored out of the softmax: PyTorch's fused kernel, which stores no matrix, is several times slower there.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..masks import sees_no_key
from .exact import ExactBackend
from .literal import ExactEvolution
from .products import precision_of

MOST_SCORES = 256**2
MOST_BYTES = 2**28


def suits(initial: InitialCondition) -> bool:
    """Whether this form is faster than a fused kernel, and its matrices of all depths are small."""
    batch, queries, _ = initial.queries.shape
    scores = queries * initial.keys.shape[1]
    size = 8 * initial.depth * batch * initial.heads * scores
    return initial.queries.device.type == "cpu" and scores <= MOST_SCORES and size <= MOST_BYTES


class StoredEvolution(ExactEvolution):
    """Softmax in at least float32; scores and products in the dtype of the computation."""

    def __init__(self, initial: InitialCondition):
        self.initial = initial
        self.precision = precision_of(initial.queries, 0)
        visible = initial.visible()
        with torch.autocast(initial.queries.device.type, enabled=False):
            q, k = (x.to(self.precision.matrix) for x in (initial.scaled_queries, initial.head_keys))
            a0 = self._multiply(q, k.mT).to(self.precision.wide)
        self.a0 = a0 if visible is None else a0.masked_fill(~visible, torch.finfo(a0.dtype).min)
        self.drift = initial.drift
        self.without = sees_no_key(initial.key_padding_mask, initial.causal)

    def _multiply(self, a: Tensor, b: Tensor) -> Tensor:
        return self.precision.multiply(a.flatten(0, 1), b.flatten(0, 1)).unflatten(0, a.shape[:2])

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        scores = self.a0 if self.drift is None else self.a0 + self.drift[l - 1][..., None, :]
        p = scores.softmax(-1)
        if self.without is not None:
            p = p.masked_fill(self.without[:, None, :, None], 0.0)
        with torch.autocast(values.device.type, enabled=False):
            low = self.precision.matrix
            return self._multiply(p.to(low), values.to(low)).to(low)


class StoredBackend(ExactBackend):
    name = "stored"
    idea = "one softmax per depth, of stored scores"
    complexity = "L (n^2 d + n^2 exponentials)"

    def begin(self, initial: InitialCondition) -> StoredEvolution:
        return StoredEvolution(initial)
