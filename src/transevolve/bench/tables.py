"""Results as people read them: a table in the terminal, one for GitHub, and a picture."""

from collections.abc import Callable
from pathlib import Path

from ..core.figures import new_figure, plain, save
from ..core.files import write_atomically
from ..core.tables import markdown, show
from .results import Results, Row
from .summary import Spread, memory_ratio, speed_ratio, spread, tokens_per_second, yardsticks

MOST_INSIDE = 10
COLOURS = ("blue", "orange", "green", "red", "purple", "brown", "pink", "gray", "olive", "cyan")
IDENTITY = ["length", "system", "backend", "size", "parameters", "features", "batch"]


def speed_columns(results: Results) -> list[str]:
    return [*IDENTITY, "seconds a step", "tokens/s", *(f"speed / {y.label}" for y in yardsticks(results.rows))]


def memory_columns(results: Results) -> list[str]:
    return [*IDENTITY, "peak MB", *(f"memory / {y.label}" for y in yardsticks(results.rows))]


def speed_table(results: Results) -> list[list[str]]:
    return [_identity(row) + _speed_numbers(row, results.rows) for row in results.rows]


def memory_table(results: Results) -> list[list[str]]:
    return [_identity(row) + _memory_numbers(row, results.rows) for row in results.rows]


def _identity(row: Row) -> list[str]:
    parameters = "" if row.parameters is None else f"{row.parameters / 1e6:.2f}M"
    features = "" if row.features is None else str(row.features)
    return [str(row.length), row.system, row.backend, row.size, parameters, features, str(row.batch)]


def _speed_numbers(row: Row, rows: list[Row]) -> list[str]:
    if row.note is not None:
        return [row.note, "", *("" for _ in yardsticks(rows))]
    ratios = []
    for yardstick in yardsticks(rows):
        against = yardstick.find(row, rows)
        ratios.append("" if against is None else _ranged(speed_ratio(row, against), 2))
    return [_ranged(spread(row.seconds), 4), f"{tokens_per_second(row):,.0f}", *ratios]


def _memory_numbers(row: Row, rows: list[Row]) -> list[str]:
    if row.note is not None or row.peak_bytes is None:
        return [row.note or "", *("" for _ in yardsticks(rows))]
    ratios = []
    for yardstick in yardsticks(rows):
        against = yardstick.find(row, rows)
        ratio = None if against is None else memory_ratio(row, against)
        ratios.append("" if ratio is None else f"{ratio:.2f}")
    return [f"{row.peak_bytes / 1e6:,.1f}", *ratios]


def _ranged(value: Spread, digits: int) -> str:
    return f"{value.middle:.{digits}f} ({value.low:.{digits}f}-{value.high:.{digits}f})"


def plot(path: Path, title: str, rows: list[Row], value: Callable[[Row], float | None], label: str) -> None:
    """One line a system against length, both axes logarithmic; of many systems the legend stands beside, best first."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    figure = new_figure(8, 5)
    axes = figure.subplots()
    colors, styles = [f"tab:{name}" for name in COLOURS], ["-", "--", ":"]
    axes.set_prop_cycle(color=colors * len(styles), linestyle=[style for style in styles for _ in colors])
    ends = []
    for system in dict.fromkeys(row.system for row in rows):
        points = [(row.length, value(row)) for row in rows if row.system == system and row.note is None]
        points = sorted((length, y) for length, y in points if y)
        if points:
            ends.append((points[-1][1], *axes.plot(*zip(*points, strict=True), marker="o", label=plain(system))))
    axes.set(xscale="log", yscale="log", xlabel="length (tokens)", ylabel=label, title=plain(title))
    lengths = sorted({row.length for row in rows})
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    if len(ends) > MOST_INSIDE:
        figure.set_size_inches(10, 6)
        ranked = sorted(ends, key=lambda end: end[0], reverse=True)
        figure.legend(handles=[line for _, line in ranked], loc="outside right upper", fontsize=9)
    elif ends:
        axes.legend()
    save(figure, path, dpi=150)


def write_report(
    results: Results,
    title: str,
    columns: list[str],
    cells: list[list[str]],
    reading: str,
    value: Callable[[Row], float | None],
    label: str,
) -> None:
    """The table on screen, and beside the json a page and a picture."""
    show(title, columns, cells)
    commits = ", ".join(dict.fromkeys(row.commit or "not a checkout" for row in results.rows))
    page = markdown(title, {**results.header, "commit": commits}, columns, cells, reading)
    write_atomically(results.path.with_suffix(".md"), page)
    plot(results.path.with_suffix(".png"), title, results.rows, value, label)
    print(f"wrote {results.path}, {results.path.with_suffix('.md').name}, {results.path.with_suffix('.png').name}")
