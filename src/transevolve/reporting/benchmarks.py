"""A benchmark's JSON file as a section of a page: how it was measured, its table, its picture."""

from dataclasses import fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from ..bench.results import Results, Row
from ..bench.summary import tokens_per_second
from ..bench.tables import memory_columns, memory_table, plot, speed_columns, speed_table
from ..core.errors import UserError
from ..core.json_files import read_json
from .markup import file_image, paragraph, section, table


def benchmark_section(path: Path) -> str:
    content = read_json(path)
    rows = content.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or "settings" not in content:
        raise UserError(f"{path} holds no benchmark: give the .json file that `transevolve bench` wrote")
    settings, header = content["settings"], content.get("header") or {}
    kind = str(settings.get("benchmark", path.stem))
    how = paragraph("; ".join(f"{key}: {value}" for key, value in header.items()))
    title, sentence = (
        f"Benchmark: {kind}",
        "Systems measured in turns in one run; ratios say how many times a Transformer's.",
    )
    if kind not in ("speed", "memory"):
        return section(title, sentence, how, table(*_any_table(rows)))
    known = {f.name for f in fields(Row)}
    results = Results(path, settings, header, [Row(**{k: v for k, v in row.items() if k in known}) for row in rows])
    shown = (speed_columns, speed_table) if kind == "speed" else (memory_columns, memory_table)
    return section(title, sentence, _picture(kind, results), table(*(cells(results) for cells in shown)), how)


def _picture(kind: str, results: Results) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "plot.png"
        if kind == "speed":
            plot(path, "speed", results.rows, lambda row: tokens_per_second(row) if row.seconds else None, "tokens/s")
        else:
            plot(path, "memory", results.rows, lambda row: (row.peak_bytes or 0) / 1e6 or None, "peak MB")
        return file_image(path, f"{kind} against length")


def _any_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Every column that is told; of repeats, the median."""
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if any(row.get(key) for row in rows)]
    return columns, [[_told(row.get(key)) for key in columns] for row in rows]


def _told(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(v, int | float) for v in value):
        value = median(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None or value == [] else str(value)
