"""The table of each benchmark, on the terminal and as a Markdown page with a plot."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.files import write_atomically
from ..core.tables import markdown, show
from .decode import MARIAN, WAYS
from .plot import Value, plot
from .results import Results, Row
from .summary import Baseline, memory_ratio, speed_ratio, spread, tokens_per_second, transformers

IDENTITY = ["length", "system", "backend", "size", "parameters", "features", "batch"]
DECODE_COLUMNS = ["system", "backend", "way", "parameters", "seconds", "tokens/s", "speed / marian generate"]
DECODE_COLUMNS += ["by CPU time", "speed / uncached", "self cache MB", "cross cache MB", "cache / marian"]
MEDIANS = "Ratios are of tokens per second: the ratio of the medians, and in brackets the quartiles over the rounds."


@dataclass(frozen=True)
class Report:
    """How a benchmark is shown."""

    title: Callable[[dict[str, Any]], str]
    columns: Callable[[list[Row]], list[str]]
    cells: Callable[[Row, list[Row]], list[str]]
    value: Value
    label: str
    reading: str

    def table(self, results: Results) -> tuple[list[str], list[list[str]]]:
        return self.columns(results.rows), [self.cells(row, results.rows) for row in results.rows]


def write_report(results: Results) -> None:
    report = REPORTS[results.benchmark]
    title, (columns, cells) = report.title(results.settings), report.table(results)
    show(title, columns, cells)
    commits = ", ".join(dict.fromkeys(row.commit or "not a checkout" for row in results.rows))
    page, picture = results.path.with_suffix(".md"), results.path.with_suffix(".png")
    write_atomically(page, markdown(title, {**results.header, "commit": commits}, columns, cells, report.reading))
    plot(picture, title, results.rows, report.value, report.label)
    print(f"wrote {results.path}, {page.name}, {picture.name}")


def _identity(row: Row) -> list[str]:
    features = "" if row.features is None else str(row.features)
    return [str(row.length), row.system, row.backend, row.size, _millions(row, 2), features, str(row.batch)]


def _speed_cells(row: Row, rows: list[Row]) -> list[str]:
    if row.note is not None or not row.seconds:
        return [*_identity(row), row.note or "not measured", "", *("" for _ in transformers(rows))]
    ratios = [_speed_ratio(row, baseline.find(row, rows)) for baseline in transformers(rows)]
    return [*_identity(row), spread(row.seconds).text(4), f"{tokens_per_second(row) or 0:,.0f}", *ratios]


def _memory_cells(row: Row, rows: list[Row]) -> list[str]:
    if row.note is not None or row.peak_bytes is None:
        return [*_identity(row), row.note or "", *("" for _ in transformers(rows))]
    found = [baseline.find(row, rows) for baseline in transformers(rows)]
    ratios = [None if other is None else memory_ratio(row, other) for other in found]
    return [*_identity(row), f"{row.peak_bytes / 1e6:,.1f}", *("" if r is None else f"{r:.2f}" for r in ratios)]


def _decode_cells(row: Row, rows: list[Row]) -> list[str]:
    identity = [row.system, row.backend, row.way or "", _millions(row, 1)]
    if row.note is not None or not row.seconds:
        return [*identity, row.note or "not measured", *("" for _ in DECODE_COLUMNS[5:])]
    marian = Baseline("", MARIAN, way="generate").find(row, rows)
    same_way = Baseline("", MARIAN, way=row.way).find(row, rows)
    return [
        *identity,
        spread(row.seconds).text(),
        f"{tokens_per_second(row) or 0:,.1f}",
        _speed_ratio(row, marian),
        _speed_ratio(row, marian, cpu=True),
        _speed_ratio(row, Baseline("", row.system, way="uncached").find(row, rows)),
        _megabytes(row.self_bytes),
        _megabytes(row.cross_bytes),
        f"{_cache(row) / _cache(same_way):.2f}" if same_way and _cache(same_way) and _cache(row) else "",
    ]


def _speed_ratio(row: Row, baseline: Row | None, *, cpu: bool = False) -> str:
    return speed_ratio(row, baseline, cpu=cpu).text() if baseline and baseline.seconds else ""


def _cache(row: Row) -> int:
    return (row.self_bytes or 0) + (row.cross_bytes or 0)


def _millions(row: Row, digits: int) -> str:
    return "" if row.parameters is None else f"{row.parameters / 1e6:.{digits}f}M"


def _megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:,.1f}"


REPORTS = {
    "speed": Report(
        title=lambda settings: f"Speed, {settings['mode']}",
        columns=lambda rows: [
            *IDENTITY,
            "seconds per step",
            "tokens/s",
            *(f"speed / {baseline.label}" for baseline in transformers(rows)),
        ],
        cells=_speed_cells,
        value=tokens_per_second,
        label="tokens per second",
        reading=f"Seconds are medians over the repeats, quartiles in brackets. {MEDIANS} Baselines are the eager and"
        " the SDPA Transformer of the same size (@base: of size base).",
    ),
    "memory": Report(
        title=lambda settings: f"Memory, {settings['mode']}",
        columns=lambda rows: [*IDENTITY, "peak MB", *(f"memory / {baseline.label}" for baseline in transformers(rows))],
        cells=_memory_cells,
        value=lambda row: row.peak_bytes and row.peak_bytes / 1e6,
        label="peak MB above the model",
        reading="Peak memory of one step above the model (and, in training, its optimizer state), each in its own"
        " process. Ratios are of memory per sequence, to the eager and the SDPA Transformer of the same size.",
    ),
    "decode": Report(
        title=lambda settings: "Decoding, {size}, {batch} sentences, {beams} beams, {new_tokens} tokens".format(
            **settings
        ),
        columns=lambda rows: DECODE_COLUMNS,
        cells=_decode_cells,
        value=tokens_per_second,
        label="tokens per second",
        reading="Seconds are medians over the repeats, quartiles in brackets, and include the encoder. Tokens are those"
        f" of the best hypothesis. {MEDIANS} CPU time is less disturbed by other work on the machine. Caches are"
        " compared with Marian's of the same way. Ways: "
        + "; ".join(f"{way}: {text}" for way, text in WAYS.items())
        + ".",
    ),
}
