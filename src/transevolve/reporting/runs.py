"""Reads run folders, also of unfinished runs: results, metrics over time, settings and evaluations."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.files import dotted, load_recipe
from ..core.errors import UserError
from ..core.json_files import read_json, read_json_lines
from ..runs.names import METRICS, RECIPE, RESULTS
from ..runs.results import Result, read_results

SEED = "training.seed"
DATA = ("data.path", "data.hub", "data.source")


@dataclass(frozen=True)
class SavedClass:
    label: str


@dataclass(frozen=True)
class SavedEvaluation:
    """The part of an `*.evaluation.json` that a page shows; a translation has no classes."""

    rows: str = ""
    accuracy: float = 0.0
    classes: list[SavedClass] = field(default_factory=list)
    confusion: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Args:
        result: results.json, None while the training is not finished.
        metrics: The lines of metrics.jsonl.
        settings: Dotted keys of the recipe.
        evaluations: Each `*.evaluation.json`.
        damaged: Lines of metrics.jsonl that could not be read.
    """

    name: str
    result: Result | None
    metrics: list[dict[str, float]]
    settings: dict[str, Any]
    evaluations: list[SavedEvaluation] = field(default_factory=list)
    damaged: int = 0

    @property
    def metric(self) -> str:
        """The metric that selected the model: accuracy, bleu, loss ..."""
        if self.result:
            return self.result.selected_by
        scored = [key for row in self.metrics for key in row if key.startswith("eval_") and key != "eval_loss"]
        return scored[0].removeprefix("eval_") if scored else "loss"

    @property
    def task(self) -> str:
        """The task and its data: only runs of the same task are compared."""
        name = self.result.task if self.result else str(self.settings.get("data.task", "files"))
        data = next((str(self.settings[key]) for key in DATA if self.settings.get(key)), "")
        return f"{name}, {Path(data).name}" if data else name

    @property
    def seed(self) -> Any:
        return self.result.seed if self.result else self.settings.get(SEED)

    @property
    def case(self) -> tuple[str, ...]:
        """Everything but the seed: runs of one case repeat each other."""
        others = (f"{key}={value}" for key, value in sorted(self.settings.items()) if key not in (SEED, "output"))
        return (self.task, self.metric, *others)


def find_runs(paths: list[Path]) -> list[Path]:
    """The run folders among and directly below the paths, or below the `runs` of a sweep."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"no run folder {str(path)!r}")
        if (path / RECIPE).is_file():
            found.append(path)
            continue
        inner = sorted(recipe.parent for below in ("*", "runs/*") for recipe in path.glob(f"{below}/{RECIPE}"))
        if not inner:
            raise UserError(f"{path} is not a run folder: it has no {RECIPE}, nor has any folder in it")
        found += inner
    return list(dict.fromkeys(found))


def read_run(folder: Path, name: str) -> RunFacts:
    results = folder / RESULTS
    metrics, damaged = read_json_lines(folder / METRICS, dict[str, float])
    return RunFacts(
        name=name,
        result=read_results(results) if results.exists() else None,
        metrics=metrics,
        settings=dotted(load_recipe(folder / RECIPE)),
        evaluations=[_evaluation(path) for path in sorted(folder.glob("*.evaluation.json"))],
        damaged=len(damaged),
    )


def names(folders: list[Path]) -> list[str]:
    """The last parts of the paths, or whole paths if these are not distinct."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _evaluation(path: Path) -> SavedEvaluation:
    found = read_json(path, SavedEvaluation)
    size = len(found.classes)
    if found.confusion and not (len(found.confusion) == size and all(len(row) == size for row in found.confusion)):
        raise UserError(f"{path} is damaged: 'confusion' is not a square of its {size} classes")
    return found


def differences(runs: list[RunFacts]) -> tuple[list[str], list[list[str]]]:
    """The settings in which runs differ, one row per setting."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if key != "output")
    rows = [[key, *(_shown(run.settings.get(key)) for run in runs)] for key in keys]
    return ["setting", *(run.name for run in runs)], [row for row in rows if len(set(row[1:])) > 1]


def _shown(value: Any) -> str:
    return "—" if value is None else str(value)
