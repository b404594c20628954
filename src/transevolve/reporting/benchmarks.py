"""A benchmark's JSON file as a section of a page: how it was measured, its table, its picture."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ..bench.plot import plot
from ..bench.results import Results, read_benchmark
from ..bench.tables import REPORTS, Report
from ..core.errors import UserError
from .markup import file_image, paragraph, section, table


def benchmark_section(path: Path) -> str:
    results = read_benchmark(path)
    report = REPORTS.get(results.benchmark)
    if report is None:
        raise UserError(f"{path} holds a benchmark of an unknown kind, {results.benchmark!r}")
    how = paragraph("; ".join(f"{key}: {value}" for key, value in results.header.items()))
    sentence = "Systems measured in turns in one run, with ratios to baselines."
    title = f"Benchmark: {results.benchmark}"
    return section(title, sentence, _picture(report, results), table(*report.table(results)), how)


def _picture(report: Report, results: Results) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plot.png"
        plot(path, results.benchmark, results.rows, report.value, report.label)
        return file_image(path, f"{results.benchmark}: {report.label}")
