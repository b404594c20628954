"""Computes the pixel coordinates of a chart's lines, ticks and error bars."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .content import Chart, Point

LEFT, RIGHT, TOP, BOTTOM = 56, 424, 10, 212
LARGEST = 1e30
MOST_TICKS = 7
MOST_POINTS = 300


@dataclass(frozen=True)
class Drawing:
    """Pixel coordinates: ticks as (position, label), and the path and points of each line."""

    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    lines: list[tuple[str, list["Mark"]]]


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    text: str
    low: float | None
    high: float | None


def drawing(chart: Chart) -> Drawing | None:
    """None if there is nothing to draw."""
    kept = [[point for point in series.points if _drawable(point, chart.log)] for series in chart.series]
    points = [point for series in kept for point in series]
    if not points:
        return None
    xs = [point.x for point in points]
    ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    x_range, y_range = _padded(min(xs), max(xs), 0.02, chart.log), _padded(min(ys), max(ys), 0.06, chart.log)
    x, y = _scale(*x_range, LEFT, RIGHT, chart.log), _scale(*y_range, BOTTOM, TOP, chart.log)
    x_ticks = _thinned(chart.ticks) if chart.ticks else ticks(*x_range, chart.whole, chart.log)
    lines = []
    for series in kept:
        marks = [_mark(point, x, y) for point in _thinned(series, MOST_POINTS)]
        lines.append((" ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in marks), marks))
    return Drawing(
        [(x(tick), short(tick)) for tick in x_ticks],
        [(y(tick), short(tick)) for tick in ticks(*y_range, False, chart.log)],
        lines,
    )


def _drawable(point: Point, log: bool) -> bool:
    values = [value for value in (point.x, point.y, point.low, point.high) if value is not None]
    return all(abs(value) < LARGEST and (value > 1 / LARGEST or not log) for value in values)


def _mark(point: Point, x: Callable[[float], float], y: Callable[[float], float]) -> Mark:
    low, high = (None if end is None else y(end) for end in (point.low, point.high))
    return Mark(x(point.x), y(point.y), point.text, low, high)


def _padded(low: float, high: float, share: float, log: bool) -> tuple[float, float]:
    """The range with a margin."""
    if log:
        room = (high / low) ** share if high > low else 2.0
        return low / room, high * room
    room = (high - low) * share or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _scale(low: float, high: float, start: float, end: float, log: bool) -> Callable[[float], float]:
    if log:
        low, high = math.log(low), math.log(high)
    return lambda value: start + (end - start) * ((math.log(value) if log else value) - low) / (high - low)


def ticks(low: float, high: float, whole: bool = False, log: bool = False) -> list[float]:
    """Round numbers in the range; with `whole`, only integers."""
    if log:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
        found = [tick for tick in found if low <= tick <= high]
        return found if len(found) <= MOST_TICKS else [tick for tick in found if f"{tick:e}"[0] == "1"] or found
    raw = (high - low) / (MOST_TICKS - 2)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= 0.7 * raw)
    step = max(step, 1.0) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _thinned(items: Sequence, most: int = MOST_TICKS) -> list:
    """At most about `most` of the items, the last one always among them."""
    every = math.ceil(len(items) / most)
    return [item for place, item in enumerate(items) if (len(items) - 1 - place) % every == 0]


def short(value: float) -> str:
    """A number for an axis or a hover text."""
    if value == 0 or 1e-4 <= abs(value) < 1e9:
        return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:.2g}"
