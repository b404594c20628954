"""The content of a page as data; the template `report.html` renders it and escapes all texts."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class Note:
    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Heading:
    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Table:
    """Cells as text; `best` contains the (row, column) of cells in bold."""

    kind: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    best: Set[tuple[int, int]] = frozenset()

    def is_numeric(self, column: int) -> bool:
        """Whether the column is aligned to the right."""
        filled = [row[column] for row in self.rows if row[column] not in ("", "—")]
        return bool(filled) and all(cell[:1].isdigit() for cell in filled)


@dataclass(frozen=True)
class Confusion:
    """Counts with true classes down and predicted classes across."""

    kind: ClassVar[str] = "confusion"
    labels: Sequence[str]
    counts: Sequence[Sequence[int]]

    def shares(self, row: int) -> list[float]:
        total = max(sum(self.counts[row]), 1)
        return [min(max(100 * count / total, 0.0), 100.0) for count in self.counts[row]]


@dataclass(frozen=True)
class Point:
    """A value, the ends of its error bar if it has one, and the text shown on hover."""

    x: float
    y: float
    text: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A line. The same `number` is the same colour in every chart of a group."""

    name: str
    number: int
    points: Sequence[Point]


@dataclass(frozen=True)
class Chart:
    """Lines over a common axis. Ticks are at integers with `whole`, or at `ticks`; `log` scales both axes."""

    title: str
    x_label: str
    series: Sequence[Series]
    whole: bool = False
    log: bool = False
    ticks: Sequence[float] = ()


@dataclass(frozen=True)
class Charts:
    """Charts side by side with one legend."""

    kind: ClassVar[str] = "charts"
    charts: Sequence[Chart]

    @property
    def legend(self) -> list[Series]:
        return list({series.number: series for chart in self.charts for series in chart.series}.values())


@dataclass(frozen=True)
class Bars:
    """(name, value as text, length in percent) of each bar."""

    kind: ClassVar[str] = "bars"
    title: str
    rows: Sequence[tuple[str, str, float]]


Part = Note | Heading | Table | Confusion | Charts | Bars


@dataclass(frozen=True)
class Section:
    title: str
    sentence: str
    parts: Sequence[Part] = field(default_factory=list)
