"""`transevolve bench decode`: speed of translation, cached, uncached, and compared with Marian."""

from ..bench.options import DecodeOptions as Options


def run(options: Options) -> int:
    from ..bench.decode import measure_decode
    from ..bench.tables import write_report

    write_report(measure_decode(options))
    return 0
