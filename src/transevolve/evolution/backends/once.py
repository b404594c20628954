"""`once`: exponentials once per block, shared by all its depths. Exact.

The matrix P of a block is stored, in at most n^2 numbers for each head (`shared`).

Compiled graphs contain it as operators (`once_ops`); exported ones use `fused`. A block whose drift ranges over more
than `SAFE_RANGE`, where w^l might underflow, uses `fused` too, or `stored` if it is small.
"""

import torch

from ..initial import InitialCondition
from .backend import Evolution
from .drift import is_separable, shared_limit
from .exact import ExactBackend
from .fused import FusedEvolution, at_any_range
from .once_ops import OnceGraphEvolution
from .products import compute_dtype
from .shared import SharedEvolution


class OnceBackend(ExactBackend):
    name = "once"
    idea = "exponentials once per block, shared by all its depths"
    complexity = "L n^2 d + n^2 exponentials"

    def begin(self, initial: InitialCondition) -> Evolution:
        if torch.compiler.is_exporting():
            return FusedEvolution(initial)
        if torch.compiler.is_compiling():
            return OnceGraphEvolution(initial)
        drift = initial.drift
        if is_separable(initial, drift, shared_limit(compute_dtype(initial.queries), initial.keys.shape[1])):
            return SharedEvolution(initial, drift, keep=True)
        return at_any_range(initial)
