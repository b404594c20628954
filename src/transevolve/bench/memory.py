"""Peak memory of one step above its model: each system and length in its own process, one at a time."""

from ..core.machine import commit
from ..core.messages import say
from .budget import planned_row
from .options import MemoryOptions
from .results import Results, open_results


def measure_memory(options: MemoryOptions) -> Results:
    """Measures each length and system that an earlier run has not."""
    results = open_results("memory", options)
    for length in options.lengths:
        for spec in options.specs():
            if results.find(spec.text, length):
                say(f"length {length}, {spec.text}: already measured")
                continue
            row = planned_row(spec, options, length, probe=True)
            row.commit = commit()
            shown = row.note or f"{(row.peak_bytes or 0) / 1e6:,.0f} MB"
            say(f"length {length}, {spec.text} x{row.batch}: {shown}")
            results.rows.append(row)
            results.save()
    return results
