"""How much memory a step needs above its model: each system and length in a process of its own, one at a time."""

import sys
from dataclasses import dataclass

from ..core.machine import commit
from .budget import planned_row
from .options import BenchOptions
from .results import Results, open_results


@dataclass(frozen=True)
class MemoryOptions(BenchOptions):
    """How much memory systems need."""


def measure_memory(options: MemoryOptions) -> Results:
    """Every length and system in turn; what an earlier run finished is not measured again."""
    specs = options.specs()
    results = open_results("memory", options)
    for length in options.lengths:
        for spec in specs:
            if results.finished(length, spec.text):
                print(f"length {length}, {spec.text}: already measured", file=sys.stderr)
                continue
            row = planned_row(spec, options, length, probe=True)
            row.commit = commit()
            shown = row.note or f"{(row.peak_bytes or 0) / 1e6:,.0f} MB"
            print(f"length {length}, {spec.text} x{row.batch}: {shown}", file=sys.stderr)
            results.add([row])
    return results
