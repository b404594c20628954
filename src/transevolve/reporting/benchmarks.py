"""A benchmark's JSON file as a section of a page: a chart and a table, and how it was measured."""

from pathlib import Path
from statistics import StatisticsError

from ..bench.results import Results, Row, read_benchmark
from ..bench.summary import spread
from ..bench.tables import REPORTS, Report
from ..core.errors import UserError
from .axes import LARGEST, short
from .content import Bars, Chart, Charts, Note, Part, Point, Section, Series, Table


def benchmark_section(path: Path) -> Section:
    results = read_benchmark(path)
    report = REPORTS.get(results.benchmark)
    if report is None:
        raise UserError(f"{path} contains a benchmark of an unknown kind, {results.benchmark!r}")
    try:
        parts: list[Part] = [_picture(report, results), Table(*report.table(results))]
    except (ArithmeticError, StatisticsError) as error:
        raise UserError(f"{path} is damaged: it contains invalid numbers ({error})") from None
    parts.append(Note("; ".join(f"{key}: {value}" for key, value in results.header.items())))
    sentence = "Systems were measured in turns in one run, with ratios to baselines."
    return Section(f"Benchmark: {results.benchmark}", sentence, parts)


def _picture(report: Report, results: Results) -> Part:
    """Lines over length, both axes logarithmic; bars if there is only one length."""
    found = [(row, value) for row in results.rows if row.note is None and (value := report.value(row))]
    found = [(row, value) for row, value in found if 0 < value < LARGEST]
    lengths = sorted({row.length for row in results.rows})
    if len(lengths) < 2:
        largest = max((value for _, value in found), default=1.0)
        rows = [(row.label, f"{short(value)} {report.label}", 100 * value / largest) for row, value in found]
        return Bars(report.label, rows)
    series = []
    for number, label in enumerate(dict.fromkeys(row.label for row, _ in found)):
        points = [_point(row, value, report) for row, value in found if row.label == label]
        series.append(Series(label, number, sorted(points, key=lambda point: point.x)))
    return Charts([Chart(report.label, "length (tokens)", series, log=True, ticks=lengths)])


def _point(row: Row, value: float, report: Report) -> Point:
    """A speed has the quartiles of its repeats."""
    text = f"{short(value)} {report.label} at {row.length:,} tokens"
    if row.peak_bytes is not None or not row.seconds:
        return Point(row.length, value, text)
    time = spread(row.seconds)
    return Point(row.length, value, text, value * time.middle / time.high, value * time.middle / time.low)
