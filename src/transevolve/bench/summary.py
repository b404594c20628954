"""From repeats to the numbers of a table: medians, quartiles, and ratios to baselines."""

from dataclasses import dataclass
from statistics import median, quantiles

from .results import Row


@dataclass(frozen=True)
class Baseline:
    """A system that others are compared with: of the same size as the row, or of one fixed size."""

    label: str
    system: str
    size: str | None = None
    way: str | None = None

    def find(self, row: Row, rows: list[Row]) -> Row | None:
        """The baseline's row at the length of `row`, if it was measured."""
        key = (row.length, self.size or row.size, self.system, self.way)
        named = ((other, other.system.partition("@")[0]) for other in rows if other.note is None)
        return next((other for other, name in named if (other.length, other.size, name, other.way) == key), None)


def transformers(rows: list[Row]) -> list[Baseline]:
    """The eager and the SDPA Transformer of each row's size; then those of size base, if both sizes were measured."""
    systems = {"eager": "transformer-eager", "sdpa": "transformer"}
    found = [Baseline(label, system) for label, system in systems.items()]
    if {row.size for row in rows} == {"small", "base"}:
        larger = {row.system.partition("@")[0] for row in rows if row.size == "base"}
        found += [Baseline(f"{label}@base", system, "base") for label, system in systems.items() if system in larger]
    return found


@dataclass(frozen=True)
class Spread:
    """A median and the quartiles around it."""

    middle: float
    low: float
    high: float

    def text(self, digits: int = 2) -> str:
        return f"{self.middle:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def spread(values: list[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)


def tokens_per_second(row: Row) -> float | None:
    return row.batch * row.length / median(row.seconds) if row.batch and row.seconds else None


def speed_ratio(row: Row, baseline: Row, *, cpu: bool = False) -> Spread:
    """Ratio of tokens per second, over the rounds that both rows have; of CPU time if `cpu`.

    The middle is the ratio of the medians, low and high are the quartiles of the ratios of each round.
    """
    tokens = (row.batch or 1) / (baseline.batch or 1)
    ours, theirs = (r.cpu_seconds if cpu else r.seconds for r in (row, baseline))
    pairs = list(zip(ours, theirs, strict=False))
    rounds = spread([tokens * b / a for a, b in pairs])
    return Spread(tokens * median(b for _, b in pairs) / median(a for a, _ in pairs), rounds.low, rounds.high)


def memory_ratio(row: Row, baseline: Row) -> float | None:
    """Ratio of peak memory per sequence."""
    if not row.peak_bytes or not baseline.peak_bytes or not row.batch or not baseline.batch:
        return None
    return (row.peak_bytes / row.batch) / (baseline.peak_bytes / baseline.batch)
