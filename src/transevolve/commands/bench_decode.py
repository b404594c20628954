"""`transevolve bench decode`: speed of translation, cached, uncached, and compared with Marian."""

from ..bench.decode import DecodeOptions as Options
from ..bench.decode import measure_decode
from ..bench.tables import write_report


def run(options: Options) -> int:
    write_report(measure_decode(options))
    return 0
