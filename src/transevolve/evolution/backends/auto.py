"""`auto`: `once` while its matrix fits the memory budget, `fused` otherwise. Exact."""

import logging
from dataclasses import dataclass

import torch

from ..initial import InitialCondition
from ..settings import EvolutionSettings
from .backend import Evolution
from .exact import ExactBackend
from .fused import FusedBackend
from .once import OnceBackend

logger = logging.getLogger(__name__)
_logged: set[str] = set()


@dataclass(frozen=True)
class AutoBackend(ExactBackend):
    """`memory_budget` is the most bytes that the matrices of `once` may take."""

    name = "auto"
    idea = "`once` while its matrix fits the memory budget, else `fused`"
    complexity = "that of the backend it chooses"

    memory_budget: int = EvolutionSettings.attention_memory_budget

    def choose(self, queries: int, keys: int, batch: int, heads: int) -> tuple[ExactBackend, str]:
        """The backend for a block of this shape, and why."""
        if torch.compiler.is_compiling():
            return FusedBackend(), "a compiled or exported graph cannot branch on the range of the drift"
        size = 4 * batch * heads * queries * keys
        sizes = f"one {queries} x {keys} matrix for each of {batch} x {heads} heads is {_readable(size)}"
        if size > self.memory_budget:
            return FusedBackend(), f"{sizes}, over the budget of {_readable(self.memory_budget)}"
        return OnceBackend(), f"{sizes}, within the budget of {_readable(self.memory_budget)}"

    def begin(self, initial: InitialCondition) -> Evolution:
        batch, queries, _ = initial.queries.shape
        backend, why = self.choose(queries, initial.keys.shape[1], batch, initial.heads)
        if not torch.compiler.is_compiling() and why not in _logged:
            _logged.add(why)
            logger.info("attention is %r: %s", backend.name, why)
        return backend.begin(initial)


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
