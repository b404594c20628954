"""`transevolve bench memory`: peak memory of a step, each system and length in its own process."""

from ..bench.memory import MemoryOptions as Options
from ..bench.memory import measure_memory
from ..bench.tables import write_report


def run(options: Options) -> int:
    write_report(measure_memory(options))
    return 0
