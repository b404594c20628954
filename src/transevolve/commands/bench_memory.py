"""`transevolve bench memory`: how much memory a step needs, each system and length in a process of its own."""

from ..bench.memory import MemoryOptions as Options
from ..bench.memory import measure_memory
from ..bench.results import Row
from ..bench.tables import memory_columns, memory_table, write_report

READING = (
    "Peak memory of one step above the model (and, in training, its optimiser state), each in a process of its own."
    " Ratios are of memory for each sequence, against the eager and the SDPA Transformer of the same size."
)


def run(options: Options) -> int:
    results = measure_memory(options)
    title = f"Memory, {options.mode}"
    columns, cells = memory_columns(results), memory_table(results)
    write_report(results, title, columns, cells, READING, _megabytes, "peak MB above the model")
    return 0


def _megabytes(row: Row) -> float | None:
    return None if row.peak_bytes is None else row.peak_bytes / 1e6
