"""From repeats to numbers worth printing: medians, quartiles, and ratios against the Transformers."""

from dataclasses import dataclass
from statistics import median, quantiles

from .results import Row


@dataclass(frozen=True)
class Yardstick:
    """A Transformer that others are measured by: of the row's own size, or of one size for all rows."""

    label: str
    system: str
    size: str | None = None

    def find(self, row: Row, rows: list[Row]) -> Row | None:
        """The yardstick's row at the length of `row`, if it ran to the end."""
        for other in rows:
            fits = (other.length, other.size) == (row.length, self.size or row.size)
            if fits and other.system.partition("@")[0] == self.system and other.note is None:
                return other
        return None


def yardsticks(rows: list[Row]) -> list[Yardstick]:
    """The eager and the SDPA Transformer of each row's size, then those of the largest size, where both sizes ran."""
    systems = {"eager": "transformer-eager", "sdpa": "transformer"}
    found = [Yardstick(label, system) for label, system in systems.items()]
    if {row.size for row in rows} == {"small", "base"}:
        larger = {row.system.partition("@")[0] for row in rows if row.size == "base"}
        found += [Yardstick(f"{label}@base", system, "base") for label, system in systems.items() if system in larger]
    return found


@dataclass(frozen=True)
class Spread:
    """A middle value and the quartiles around it."""

    middle: float
    low: float
    high: float


def spread(values: list[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)


def tokens_per_second(row: Row) -> float:
    assert row.batch is not None
    return row.batch * row.length / median(row.seconds)


def speed_ratio(row: Row, against: Row) -> Spread:
    """How many times the tokens a second: the ratio of the medians, and the quartiles of the ratios in each round."""
    assert row.batch is not None
    assert against.batch is not None
    tokens = row.batch / against.batch
    rounds = spread([tokens * b / a for a, b in zip(row.seconds, against.seconds, strict=True)])
    return Spread(tokens_per_second(row) / tokens_per_second(against), rounds.low, rounds.high)


def memory_ratio(row: Row, against: Row) -> float | None:
    """How many times the memory a token."""
    if not row.peak_bytes or not against.peak_bytes or not row.batch or not against.batch:
        return None
    return (row.peak_bytes / row.batch) / (against.peak_bytes / against.batch)
