"""Groups runs by case over seeds, estimates errors of scores, and compares cases."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import commonprefix
from statistics import fmean, stdev

from ..kinds.registry import higher_is_better
from .axes import LARGEST
from .runs import RunFacts

PROPORTIONS = ("accuracy",)


@dataclass(frozen=True)
class MeanScore:
    """A mean and its error; the error is None if unknown."""

    value: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.value:.4f}" if self.error is None else f"{self.value:.4f} ± {self.error:.4f}"


@dataclass(frozen=True)
class Case:
    """Runs that differ only in their seed."""

    runs: list[RunFacts]

    @property
    def name(self) -> str:
        names = [run.name for run in self.runs]
        return names[0] if len(names) == 1 else f"{_common(names)} ({len(names)} seeds)"

    @property
    def task(self) -> str:
        return self.runs[0].task

    @property
    def metric(self) -> str:
        return self.runs[0].metric

    def score(self, split: str) -> MeanScore | None:
        """The standard deviation over seeds; for one run, the binomial error if the metric is a fraction of rows."""
        values = [value for run in self.runs if (value := run_score(run, split)) is not None]
        if not values:
            return None
        if len(values) > 1:
            return MeanScore(fmean(values), stdev(values))
        rows = split_rows(self.runs[0], split) if self.metric in PROPORTIONS else None
        within = rows and 0 <= values[0] <= 1
        return MeanScore(values[0], math.sqrt(values[0] * (1 - values[0]) / rows) if rows and within else None)


def _common(names: list[str]) -> str:
    """The common prefix of the names, without a trailing "-seed"."""
    common = commonprefix(names)  # noqa: RUF071
    return common.rstrip("-_. 0123456789").removesuffix("seed").rstrip("-_. ") or names[0]


def cases(runs: Sequence[RunFacts]) -> list[Case]:
    """Group runs of one case with different seeds; a repeated seed is a separate case."""
    found: dict[tuple, list[RunFacts]] = {}
    for run in runs:
        again = sum(other.seed == run.seed for group in found.values() for other in group if other.case == run.case)
        found.setdefault((run.case, again), []).append(run)
    return [Case(group) for group in found.values()]


def run_score(run: RunFacts, split: str) -> float | None:
    scores = (run.result.validation if split == "validation" else run.result.test) if run.result else None
    value = (scores or {}).get(run.metric)
    return value if value is not None and abs(value) < LARGEST else None


def split_rows(run: RunFacts, split: str) -> int | None:
    splits = run.result.data.get("splits") if run.result else None
    part = splits.get(split) if isinstance(splits, dict) else None
    rows = part.get("rows") if isinstance(part, dict) else None
    return rows if isinstance(rows, int) and rows > 0 else None


def best(found: Sequence[Case], split: str) -> set[int]:
    """Cases that are better than all others of their task and metric by more than both errors."""
    leaders = set()
    groups: dict[tuple[str, str], list[tuple[int, MeanScore]]] = {}
    for number, case in enumerate(found):
        score = case.score(split)
        if score is not None:
            groups.setdefault((case.task, case.metric), []).append((number, score))
    for (_, metric), scored in groups.items():
        ranked = sorted(scored, key=lambda item: item[1].value, reverse=higher_is_better(metric))
        if len(ranked) > 1 and all(_exceeds(ranked[0][1], other) for _, other in ranked[1:]):
            leaders.add(ranked[0][0])
    return leaders


def _exceeds(a: MeanScore, b: MeanScore) -> bool:
    """Whether the difference is larger than its error; False if the error is unknown."""
    return a.error is not None and b.error is not None and abs(a.value - b.value) > math.hypot(a.error, b.error)
