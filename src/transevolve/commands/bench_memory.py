"""`transevolve bench memory`: peak memory of a step, each system and length in its own process."""

from ..bench.options import MemoryOptions as Options


def run(options: Options) -> int:
    from ..bench.memory import measure_memory
    from ..bench.tables import write_report

    write_report(measure_memory(options))
    return 0
