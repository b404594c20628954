"""`transevolve systems`: every system, its source and its capabilities.

Importing the systems takes seconds, so their table is cached, under a name that changes with their source code.
"""

import hashlib
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.cache import default_cache
from ..core.files import write_atomically
from ..core.tables import show
from ..models.settings import VARIANTS

CITATION = "Dutta et al., Redesigning the Transformer Architecture, NeurIPS 2021"
SOURCES = ("evolution/backends", "peers")
Cells = list[list[str]]


@dataclass(frozen=True)
class Options:
    """No options."""


def run(options: Options) -> int:
    backends, peers = _cached() if "transevolve.peers" not in sys.modules else _systems()
    show(f"TransEvolve, as VARIANT:BACKEND ({CITATION})", ["variant", "shape"], _variants())
    show("Backends: the attention of L depths", ["backend", "complexity", "capabilities", "idea"], backends)
    show("Other systems: one layer's mixing", ["system", "backend", "complexity", "capabilities", "citation"], peers)
    return 0


def _variants() -> Cells:
    rows = []
    for name, shape in VARIANTS.items():
        blocks = "1 block" if shape["num_blocks"] == 1 else f"{shape['num_blocks']} blocks"
        rows.append([name, f"{shape['feedforward']} feed-forward, {blocks} of depth {shape['block_depth']}"])
    return rows


def _systems() -> list[Cells]:
    """The backends, and the other systems."""
    from ..evolution.backends import BACKENDS
    from ..peers import SYSTEMS

    backends = [[name, b.complexity, b.capabilities(), b.idea] for name, b in BACKENDS.items()]
    return [backends, [[s.name, s.backend, s.complexity, str(s.capabilities), s.citation] for s in SYSTEMS.values()]]


def _cached() -> list[Cells]:
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(file for folder in SOURCES for file in (package / folder).glob("*.py")):
        digest.update(file.name.encode() + file.read_bytes())
    path = default_cache() / f"systems-{digest.hexdigest()[:16]}.json"
    with suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    found = _systems()
    with suppress(OSError):
        write_atomically(path, json.dumps(found))
    return found
