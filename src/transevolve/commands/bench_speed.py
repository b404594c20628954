"""`transevolve bench speed`: speed of systems, side by side."""

from ..bench.speed import SpeedOptions as Options
from ..bench.speed import measure_speed
from ..bench.tables import write_report


def run(options: Options) -> int:
    write_report(measure_speed(options))
    return 0
