"""Plots a benchmark: one line per system over length, or bars if there is only one length."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.figures import new_figure, plain, save
from .results import Row

MOST_INSIDE = 10
Value = Callable[[Row], float | None]


def plot(path: Path, title: str, rows: list[Row], value: Value, label: str) -> None:
    lengths = sorted({row.length for row in rows})
    values = [(row, y) for row in rows if row.note is None and (y := value(row))]
    figure = new_figure(8, 5)
    axes = figure.subplots()
    axes.set_title(plain(title))
    if len(lengths) > 1:
        _lines(figure, axes, values, lengths, label)
    else:
        _bars(figure, axes, values, label)
    save(figure, path)


def _bars(figure: Any, axes: Any, values: list[tuple[Row, float]], label: str) -> None:
    """One bar per row, the first at the top."""
    figure.set_size_inches(8, 1.5 + 0.35 * len(values))
    bars = axes.barh(range(len(values)), [y for _, y in values])
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set_yticks(range(len(values)), labels=[plain(row.label, 40) for row, _ in values])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    axes.grid(axis="x", alpha=0.3)


def _lines(figure: Any, axes: Any, values: list[tuple[Row, float]], lengths: list[int], label: str) -> None:
    """Both axes are logarithmic; with many systems, the legend is next to the plot, best first."""
    from matplotlib import rcParams
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    colors, styles = rcParams["axes.prop_cycle"].by_key()["color"], ["-", "--", ":"]
    axes.set_prop_cycle(color=colors * len(styles), linestyle=[style for style in styles for _ in colors])
    ends = []
    for name in dict.fromkeys(row.label for row, _ in values):
        points = sorted((row.length, y) for row, y in values if row.label == name)
        ends.append((points[-1][1], *axes.plot(*zip(*points, strict=True), marker="o", label=plain(name, 40))))
    axes.set(xscale="log", yscale="log", xlabel="length (tokens)", ylabel=label)
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
