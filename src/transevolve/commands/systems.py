"""`transevolve systems`: everything there is to compare, where it comes from and what it can do."""

from dataclasses import dataclass

from ..core.tables import show
from ..evolution.backends import BACKENDS
from ..models.config import TransEvolveConfig
from ..models.settings import VARIANTS
from ..peers import SYSTEMS

CITATION = "Dutta et al., Redesigning the Transformer Architecture, NeurIPS 2021"


@dataclass(frozen=True)
class Options:
    """There is nothing to choose."""


def run(options: Options) -> int:
    show("TransEvolve: VARIANT:BACKEND, such as fullFF-1:literal", ["variant", "shape", "citation"], _variants())
    show("Backends: the attention of L depths", ["backend", "complexity", "capabilities", "what"], _backends())
    show("Other systems: one layer's mixing", ["system", "backend", "complexity", "capabilities", "citation"], _peers())
    return 0


def _variants() -> list[list[str]]:
    rows = []
    for name in VARIANTS:
        config = TransEvolveConfig.variant(name)
        blocks = "1 block" if config.num_blocks == 1 else f"{config.num_blocks} blocks"
        rows.append([name, f"{config.feedforward} feed-forward, {blocks} of depth {config.block_depth}", CITATION])
    return rows


def _backends() -> list[list[str]]:
    return [[name, b.complexity, b.capabilities(), b.idea] for name, b in BACKENDS.items()]


def _peers() -> list[list[str]]:
    return [[s.name, s.backend, s.complexity, str(s.capabilities), s.citation] for s in SYSTEMS.values()]
