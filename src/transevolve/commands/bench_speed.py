"""`transevolve bench speed`: speed of systems, side by side."""

from ..bench.options import SpeedOptions as Options


def run(options: Options) -> int:
    from ..bench.speed import measure_speed
    from ..bench.tables import write_report

    write_report(measure_speed(options))
    return 0
