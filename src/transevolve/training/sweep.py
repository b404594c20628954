"""One recipe over variants, systems, settings and seeds: every case a run of its own, one table at the end."""

import itertools
import json
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.files import find_recipe, known_keys, read_settings
from ..core.errors import UserError, nearest, quoted
from ..core.files import write_atomically
from ..core.machine import commit, device_name, versions
from ..runs.names import RESULTS

KEYS = ("recipe", "settings", "rows", "grid", "seeds", "output")
INTERRUPTED = 130
ROW_SEEDS = "seeds"
MOST_CURVES = 8


@dataclass(frozen=True)
class Sweep:
    """A sweep file: `rows` (settings that go together) times `grid` (a list a key) times `seeds` (or the row's own)."""

    recipe: str
    settings: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    grid: dict[str, list[Any]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0])
    output: str | None = None

    def cases(self) -> list[tuple[dict[str, Any], list[int]]]:
        """The settings of each case, and its seeds."""
        products = itertools.product(*self.grid.values())
        chosen = [dict(zip(self.grid, values, strict=True)) for values in products]
        return [({**settings_of(row), **more}, row.get(ROW_SEEDS, self.seeds)) for row in self.rows for more in chosen]


def settings_of(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != ROW_SEEDS}


@dataclass
class Outcome:
    """One case: its results by seed, or why it has none."""

    settings: dict[str, Any]
    results: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None


def read_sweep(path: Path) -> Sweep:
    content = read_settings(path)
    for key in content:
        if key not in KEYS:
            raise UserError(f"{path}: unknown key {key!r}{nearest(str(key), KEYS) or f'; there are {quoted(KEYS)}'}")
    if not isinstance(content.get("recipe"), str):
        raise UserError(f"{path}: 'recipe' must name the recipe to vary")
    find_recipe(content["recipe"])
    sweep = Sweep(**content)
    shapes = [("settings", dict), ("rows", list), ("grid", dict), ("seeds", list)]
    for name, kind in shapes:
        if not isinstance(getattr(sweep, name), kind) or (kind is list and not getattr(sweep, name)):
            raise UserError(f"{path}: {name!r} must be a {'list' if kind is list else 'mapping'}, not empty")
    if not all(isinstance(values, list) and values for values in sweep.grid.values()):
        raise UserError(f"{path}: every key of 'grid' needs a list of values")
    if not all(isinstance(row, dict) for row in sweep.rows):
        raise UserError(f"{path}: every row must be a mapping such as {{model.variant: fullFF-1}}")
    for seeds in [sweep.seeds, *(row[ROW_SEEDS] for row in sweep.rows if ROW_SEEDS in row)]:
        if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
            raise UserError(f"{path}: 'seeds' must be a list of whole numbers, got {seeds!r}")
    known = known_keys()
    for key in [*sweep.settings, *(key for row in sweep.rows for key in settings_of(row)), *sweep.grid]:
        if key not in known:
            raise UserError(f"{path}: unknown setting {key!r}{nearest(str(key), known)}")
    return sweep


def run_sweep(sweep: Sweep, folder: Path, extra: list[str]) -> list[Outcome]:
    """Trains what is not trained yet, one after another; a case that fails does not stop the rest."""
    outcomes = []
    cases = sweep.cases()
    for number, (settings, seeds) in enumerate(cases, start=1):
        outcome = Outcome(settings)
        for seed in seeds:
            run = folder / "runs" / f"{slug(settings)}-seed{seed}"
            print(f"[{number}/{len(cases)}] {title(settings)}, seed {seed}: {run}", file=sys.stderr, flush=True)
            error = train_case(sweep, settings, seed, run, extra)
            if error is None:
                outcome.results.append(json.loads((run / RESULTS).read_text(encoding="utf-8")))
            else:
                outcome.error = error
        outcomes.append(outcome)
        write_tables(sweep, folder, outcomes, extra)
    return outcomes


def train_case(sweep: Sweep, settings: dict[str, Any], seed: int, run: Path, extra: list[str]) -> str | None:
    """A training in a process of its own; returns what went wrong, if something did."""
    flags = [_flag(key, value) for key, value in {**sweep.settings, **settings}.items()]
    command = [sys.executable, "-m", "transevolve", "train", sweep.recipe, *flags, *extra]
    command += [f"--training.seed={seed}", f"--output={run}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        last = ""
        for line in running.stderr:
            sys.stderr.write(f"    {line}")
            sys.stderr.flush()
            last = line.strip() or last
    if running.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    told = last.removeprefix("transevolve: error: ") or f"exit code {running.returncode}"
    return told if running.returncode else None


def _flag(key: str, value: Any) -> str:
    return f"--{key}={value if isinstance(value, str) else json.dumps(value)}"


def title(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key.split('.')[-1]} {value}" for key, value in settings.items()) or "the recipe itself"


def slug(settings: dict[str, Any]) -> str:
    return re.sub(r"[^\w.=-]+", "-", "_".join(f"{k.split('.')[-1]}={v}" for k, v in settings.items())) or "recipe"


def table(outcomes: list[Outcome]) -> tuple[list[str], list[list[str]]]:
    metric = next((o.results[0]["selected_by"] for o in outcomes if o.results), "accuracy")
    columns = ["case", "parameters", "seeds", f"validation {metric}", f"test {metric}", "s / epoch", "tokens/s", "note"]
    rows = []
    for outcome in outcomes:
        found = outcome.results
        numbers = [
            f"{found[0]['parameters'] / 1e6:.2f}M" if found else "",
            str(len(found)),
            _mean([r["validation"][metric] for r in found]),
            _mean([r["test"][metric] for r in found if r["test"]]),
            _mean([r["seconds_per_epoch"] for r in found], 0),
            _mean([r["tokens_per_second"] for r in found], 0),
        ]
        rows.append([title(outcome.settings), *numbers, outcome.error or ""])
    return columns, rows


def _mean(values: list[float], digits: int = 4) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):,.{digits}f}"


def write_tables(sweep: Sweep, folder: Path, outcomes: list[Outcome], extra: list[str]) -> None:
    """sweep.json and sweep.md, whole after every case."""
    from ..core.tables import markdown

    header = {
        "recipe": " ".join([sweep.recipe, *(_flag(k, v) for k, v in sweep.settings.items()), *extra]),
        "machine": device_name("cpu"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "commit": commit() or "not a checkout",
    }
    columns, cells = table(outcomes)
    reading = "Mean and standard deviation over seeds. Validation selects the checkpoint; test is scored once, after."
    write_atomically(folder / "sweep.md", markdown("Sweep", header, columns, cells, reading))
    content = {"header": header, "cases": [vars(outcome) for outcome in outcomes]}
    write_atomically(folder / "sweep.json", json.dumps(content, indent=1) + "\n")


def most_frequent(outcomes: list[Outcome]) -> float | None:
    """The accuracy of always answering the most frequent class, on test or else validation."""
    result = next((o.results[0] for o in outcomes if o.results), None)
    if result is None or result["selected_by"] != "accuracy":
        return None
    splits = result["data"]["splits"]
    counts = splits["test" if result["test"] else "validation"]["classes"].values()
    return max(counts) / sum(counts)


def plot(sweep: Sweep, outcomes: list[Outcome], path: Path) -> None:
    """Validation against the first key of the grid; without one against the epoch, or for many cases side by side."""
    done = [outcome for outcome in outcomes if outcome.results]
    if not done:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    metric = done[0].results[0]["selected_by"]
    many = len(done) > MOST_CURVES and not sweep.grid
    figure, axis = plt.subplots(figsize=(7, 0.3 * len(done) + 1 if many else 4.5), layout="constrained")
    if many:
        done.sort(key=lambda outcome: _validation(outcome, metric))
        for height, outcome in enumerate(done):
            scores = [result["validation"][metric] for result in outcome.results]
            axis.plot(scores, [height] * len(scores), "o", alpha=0.7)
        axis.set(xlabel=f"validation {metric}, a dot a seed", yticks=range(len(done)))
        axis.set_yticklabels([title(outcome.settings) for outcome in done])
    else:
        key, lines = _over_grid(sweep, done, metric) if sweep.grid else ("epoch", _over_epochs(done, metric))
        for name, points in lines.items():
            axis.plot([x for x, _ in points], [y for _, y in points], "o-", label=name)
        axis.set(xlabel=key, ylabel=f"validation {metric}")
        axis.legend()
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _validation(outcome: Outcome, metric: str) -> float:
    return statistics.fmean(result["validation"][metric] for result in outcome.results)


def _over_grid(sweep: Sweep, done: list[Outcome], metric: str) -> tuple[str, dict[str, list[tuple[Any, float]]]]:
    key = next(iter(sweep.grid))
    lines: dict[str, list[tuple[Any, float]]] = {}
    for outcome in done:
        name = title({k: value for k, value in outcome.settings.items() if k != key})
        lines.setdefault(name, []).append((str(outcome.settings[key]), _validation(outcome, metric)))
    return key, lines


def _over_epochs(done: list[Outcome], metric: str) -> dict[str, list[tuple[Any, float]]]:
    """A line a case: its first seed."""
    return {title(o.settings): [(row["epoch"], row[metric]) for row in o.results[0]["epochs"]] for o in done}
