"""`auto`: the exact backend that suits a problem, `once` while its matrix fits the memory budget, else `fused`."""

import logging

import torch

from ..initial import InitialCondition
from . import fused, once
from .backend import Evolution, Settings

COMPLEXITY = "that of the backend it chooses"

logger = logging.getLogger(__name__)
_said: set[str] = set()


def explain(
    queries: int, keys: int, batch: int, heads: int, device: str = "cpu", settings: Settings | None = None
) -> tuple[str, str]:
    """The backend chosen for a block of this shape, and why."""
    if torch.compiler.is_compiling():
        return "fused", "a compiled or exported graph cannot branch on the drift's range"
    budget = (settings or Settings()).memory_budget
    size = 4 * batch * heads * queries * keys
    sizes = f"one {queries} x {keys} matrix for each of {batch} x {heads} heads is {_readable(size)}"
    if size > budget:
        return "fused", f"{sizes}, over the budget of {_readable(budget)}"
    return "once", f"{sizes}, within the budget of {_readable(budget)}"


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def begin(initial: InitialCondition, settings: Settings) -> Evolution:
    batch, queries, _ = initial.queries.shape
    keys, device = initial.keys.shape[1], initial.queries.device.type
    name, why = explain(queries, keys, batch, initial.heads, device, settings)
    if why not in _said and not torch.compiler.is_compiling():
        _said.add(why)
        logger.info("attention is %r: %s", name, why)
    return (once if name == "once" else fused).begin(initial, settings)
