"""What run folders tell: results, metrics over time, settings and evaluations. An unfinished run tells what it has."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.files import dotted, load_recipe
from ..core.errors import UserError
from ..core.json_files import fits, read_json
from ..runs.results import read_results

EVALUATION = {"accuracy": float, "classes": list[dict[str, Any]], "confusion": list[list[int]]}


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Args:
        result: results.json, None while the training is not finished.
        metrics: The lines of metrics.jsonl.
        settings: Dotted keys of the recipe.
        evaluations: Each `*.evaluation.json`.
    """

    name: str
    result: dict[str, Any] | None
    metrics: list[dict[str, Any]]
    settings: dict[str, Any]
    evaluations: list[dict[str, Any]]

    @property
    def metric(self) -> str:
        """What the run is judged by: accuracy, bleu, or loss."""
        if self.result and self.result.get("selected_by"):
            return str(self.result["selected_by"])
        scored = [key for row in self.metrics for key in row if key.startswith("eval_") and key != "eval_loss"]
        return scored[0].removeprefix("eval_") if scored else "loss"

    def series(self, key: str, against: str) -> list[tuple[float, float]]:
        return [(row[against], row[key]) for row in self.metrics if key in row and against in row]


def find_runs(paths: list[Path]) -> list[Path]:
    """The run folders among and directly below the paths, or below the `runs` of a sweep."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"no run folder {str(path)!r}")
        if (path / "recipe.yaml").is_file():
            found.append(path)
            continue
        inner = sorted(recipe.parent for below in ("*", "runs/*") for recipe in path.glob(f"{below}/recipe.yaml"))
        if not inner:
            raise UserError(f"{path} is not a run folder: it has no recipe.yaml, nor has any folder in it")
        found += inner
    return list(dict.fromkeys(found))


def read_run(folder: Path, name: str) -> RunFacts:
    evaluations = [_evaluation(path) for path in sorted(folder.glob("*.evaluation.json"))]
    results = folder / "results.json"
    return RunFacts(
        name=name,
        result=read_results(results) if results.exists() else None,
        metrics=_lines(folder / "metrics.jsonl"),
        settings=dotted(load_recipe(folder / "recipe.yaml")),
        evaluations=evaluations,
    )


def names(folders: list[Path]) -> list[str]:
    """Last parts of the paths, or whole paths where these are not enough to tell runs apart."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _evaluation(path: Path) -> dict[str, Any]:
    content = read_json(path)
    wrong = next((key for key, kind in EVALUATION.items() if key in content and not fits(content[key], kind)), None)
    confused, classes = content.get("confusion", []), content.get("classes", [])
    if wrong is None and not (len(confused) == len(classes) and all(len(row) == len(classes) for row in confused)):
        wrong = "confusion"
    if wrong is not None:
        raise UserError(f"{path} is damaged: its {wrong!r} is not what `transevolve evaluate` writes")
    return content


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that a training may be writing to."""
    rows = []
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if fits(row, dict[str, float]):
            rows.append(row)
    return rows


def differences(runs: list[RunFacts]) -> tuple[list[str], list[list[str]]]:
    """The settings in which runs differ, a row each."""
    keys = dict.fromkeys(key for run in runs for key in run.settings if key != "output")
    told = [[key, *(_told(run.settings.get(key)) for run in runs)] for key in keys]
    return ["setting", *(run.name for run in runs)], [row for row in told if len(set(row[1:])) > 1]


def _told(value: Any) -> str:
    return "—" if value is None else str(value)
