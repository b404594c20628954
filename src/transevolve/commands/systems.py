"""`transevolve systems`: every system, its source and its capabilities."""

import inspect
from dataclasses import dataclass

from ..bench.systems import is_exact
from ..core.tables import show
from ..evolution.backends import BACKENDS
from ..models.config import TransEvolveConfig
from ..models.settings import VARIANTS
from ..peers import SYSTEMS, Capabilities

CITATION = "Dutta et al., Redesigning the Transformer Architecture, NeurIPS 2021"


@dataclass(frozen=True)
class Options:
    """No options."""


def run(options: Options) -> int:
    show(f"TransEvolve, as VARIANT:BACKEND ({CITATION})", ["variant", "shape"], _variants())
    show("Backends: the attention of L depths", ["backend", "complexity", "capabilities", "what"], _backends())
    show("Other systems: one layer's mixing", ["system", "backend", "complexity", "capabilities", "citation"], _peers())
    return 0


def _variants() -> list[list[str]]:
    rows = []
    for name in VARIANTS:
        config = TransEvolveConfig.variant(name)
        blocks = "1 block" if config.num_blocks == 1 else f"{config.num_blocks} blocks"
        rows.append([name, f"{config.feedforward} feed-forward, {blocks} of depth {config.block_depth}"])
    return rows


def _backends() -> list[list[str]]:
    rows = []
    for name, begin in BACKENDS.items():
        can = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=not is_exact(name))
        module = inspect.getmodule(begin)
        idea = (module.__doc__ or "").strip().splitlines()[0]
        rows.append([name, getattr(module, "COMPLEXITY", ""), str(can), idea])
    return rows


def _peers() -> list[list[str]]:
    return [[s.name, s.backend, s.complexity, str(s.capabilities), s.citation] for s in SYSTEMS.values()]
