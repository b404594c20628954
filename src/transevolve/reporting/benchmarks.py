"""A benchmark's JSON file as a section of a page: a chart and a table, and how it was measured."""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..bench.results import Results, Row
from ..bench.summary import spread
from ..bench.tables import memory_columns, memory_table, speed_columns, speed_table
from ..core.errors import UserError
from ..core.json_files import read_json
from .axes import short
from .content import Chart, Charts, Note, Point, Section, Series, Table


@dataclass(frozen=True)
class AnyBenchmark:
    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    header: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ByLength:
    """A speed or memory benchmark."""

    rows: list[Row]


def benchmark_section(path: Path) -> Section:
    if not {"settings", "rows"} <= read_json(path, dict[str, Any]).keys():
        raise UserError(f"{path} holds no benchmark: give the .json file that `transevolve bench` wrote")
    found = read_json(path, AnyBenchmark)
    kind = str(found.settings.get("benchmark", path.stem))
    title = f"Benchmark: {kind}"
    how = Note("; ".join(f"{key}: {value}" for key, value in found.header.items()))
    if kind not in ("speed", "memory"):
        return Section(title, "Of repeated measurements, the median.", [Table(*_any_table(found.rows)), how])
    results = Results(path, found.settings, found.header, read_json(path, ByLength).rows)
    cells = (speed_columns, speed_table) if kind == "speed" else (memory_columns, memory_table)
    sentence = "Systems were measured in turns in one run; each ratio compares with a Transformer."
    return Section(title, sentence, [Charts([_chart(kind, results)]), Table(*(make(results) for make in cells)), how])


def _chart(kind: str, results: Results) -> Chart:
    systems = dict.fromkeys(row.system for row in results.rows)
    series = []
    for number, system in enumerate(systems):
        rows = sorted((row for row in results.rows if row.system == system), key=lambda row: row.length)
        points = [_speed(row) if kind == "speed" else _memory(row) for row in rows if row.note is None]
        series.append(Series(system, number, [point for point in points if point is not None]))
    title = "tokens/s, with quartiles of repeats" if kind == "speed" else "peak MB"
    lengths = sorted({row.length for row in results.rows})
    return Chart(title, "length (tokens)", series, log=True, ticks=lengths)


def _speed(row: Row) -> Point | None:
    if not row.seconds or min(row.seconds) <= 0 or not row.batch:
        return None
    time, tokens = spread(row.seconds), row.batch * row.length
    rate = tokens / time.middle
    return Point(row.length, rate, f"{short(rate)} tokens/s at {row.length:,}", tokens / time.high, tokens / time.low)


def _memory(row: Row) -> Point | None:
    size = (row.peak_bytes or 0) / 1e6
    return Point(row.length, size, f"{short(size)} MB at {row.length:,}") if size else None


def _any_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Every column that has a value; of repeats, the median."""
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if any(row.get(key) for row in rows)]
    return columns, [[_shown(row.get(key)) for key in columns] for row in rows]


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
        value = median(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None or value == [] else str(value)
