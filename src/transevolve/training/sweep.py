"""Trains one recipe over variants, systems, settings and seeds: one run per case, and one table."""

import itertools
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from ..config.files import dotted, fill, find_recipe, load_recipe, recipe_yaml
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.figures import integer_ticks, new_figure, plain, save
from ..core.files import write_atomically
from ..core.machine import describe_machine
from ..core.messages import say
from ..core.progress import clock
from ..core.public import public
from ..core.values import read_value
from ..core.yaml_files import read_yaml
from ..runs.names import RESULTS
from . import records
from .plan import Plan, plan

INTERRUPTED = 130
SEED, SEEDS = "training.seed", "seeds"
MOST_CURVES = 8


@dataclass
class Sweep:
    """A sweep file: the product of `rows` (combined settings), `grid` (values per key) and `seeds` (or a row's)."""

    recipe: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    grid: dict[str, list[Any]] = field(default_factory=dict)
    seeds: list[int] | None = None
    output: str | None = None

    def cases(self) -> list[tuple[dict[str, Any], list[int]]]:
        """The settings of each case, and its seeds."""
        found = []
        for row, values in itertools.product(self.rows, itertools.product(*self.grid.values())):
            settings = {**row, **dict(zip(self.grid, values, strict=True))}
            seeds = settings.pop(SEEDS, self.seeds)
            if seeds and SEED in {**self.settings, **settings}:
                raise UserError(f"{SEED} and 'seeds' exclude each other: remove one")
            found.append((settings, seeds or [settings.get(SEED, self.settings.get(SEED, 0))]))
        return found


@dataclass
class Outcome:
    """One case: its results by seed, or its error."""

    settings: dict[str, Any]
    results: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None


def read_sweep(path: Path) -> Sweep:
    sweep = Sweep()
    fill(sweep, read_yaml(path), str(path))
    if not sweep.recipe:
        raise UserError(f"{path}: 'recipe' must name the recipe to vary")
    find_recipe(sweep.recipe)
    sweep.settings = typed(sweep.settings, str(path))
    sweep.rows = [typed(row, str(path)) for row in sweep.rows]
    sweep.grid = {key: [typed({key: one}, str(path))[key] for one in values] for key, values in sweep.grid.items()}
    if not sweep.cases():
        raise UserError(f"{path}: there is no case: 'rows' and the lists of 'grid' must not be empty")
    return sweep


def typed(settings: dict[str, Any], source: str = "") -> dict[str, Any]:
    """Settings by dotted key, with the types of a recipe, and the `seeds` of a row."""
    recipe = Recipe()
    fill(recipe, {key: value for key, value in settings.items() if key != SEEDS}, source)
    values = dotted(recipe)
    try:
        return {key: read_value(list[int], value) if key == SEEDS else values[key] for key, value in settings.items()}
    except ValueError as error:
        raise UserError(f"{source}: 'seeds' must be whole numbers: {error}") from None
    except KeyError as error:
        raise UserError(f"{source}: {error} is a section: name a setting in it, such as training.epochs") from None


def run_sweep(sweep: Sweep, folder: Path, recorded: Path | None = None, train: bool = True) -> list[Outcome]:
    """Train the cases that are neither finished nor recorded, the first seed of each first; failures do not stop it."""
    outcomes, todo = [], []
    for number, (settings, seeds) in enumerate(sweep.cases()):
        outcomes.append(Outcome(settings))
        for rank, (path, recipe) in enumerate(_recipes(sweep, folder, settings, seeds).items()):
            record = recorded and recorded / f"{path.stem}.json"
            known = record and records.find(record, recipe)
            if known:
                outcomes[-1].results.append(known)
            elif train:
                todo.append((rank, number, path, record, recipe))
    write_tables(sweep, recorded or folder, outcomes)
    started = time.monotonic()
    for done, (_, number, path, record, recipe) in enumerate(sorted(todo, key=lambda one: one[:2])):
        left = clock((time.monotonic() - started) / done * (len(todo) - done)) if done else ""
        what = f"{title(outcomes[number].settings)}, seed {recipe.training.seed}: {recipe.output}"
        say(f"[{number + 1}/{len(outcomes)}] {what}{left and f'; about {left} left'}")
        write_atomically(path, recipe_yaml(recipe))
        error = train_case(path)
        if error is None:
            results = json.loads(Path(str(recipe.output), RESULTS).read_text(encoding="utf-8"))
            outcomes[number].results.append(records.keep(record, recipe, results) if record else results)
            outcomes[number].results.sort(key=lambda one: one["seed"])
        else:
            outcomes[number].error = error
        write_tables(sweep, recorded or folder, outcomes)
    return outcomes


def plan_sweep(sweep: Sweep, folder: Path, recorded: Path | None = None) -> list[tuple[dict[str, Any], int, Plan]]:
    """The settings, the number of missing seeds and the plan of each case that is neither finished nor recorded."""
    found = []
    for settings, seeds in sweep.cases():
        missing = [
            recipe
            for path, recipe in _recipes(sweep, folder, settings, seeds).items()
            if not (recorded and records.find(recorded / f"{path.stem}.json", recipe))
            and not Path(str(recipe.output), RESULTS).exists()
        ]
        if missing:
            say(f"timing {title(settings)}")
            found.append((settings, len(missing), plan(missing[0])))
    return found


def _recipes(sweep: Sweep, folder: Path, settings: dict[str, Any], seeds: list[int]) -> dict[Path, Recipe]:
    """The recipe of each seed, by its file."""
    found = {}
    for seed in seeds:
        name = f"{slug(settings)}-seed{seed}"
        own = {SEED: seed, "output": str(folder / "runs" / name)}
        recipe = load_recipe(sweep.recipe, sweep.settings, settings, own)
        found[folder / "recipes" / f"{name}.yaml"] = recipe
    return found


def train_case(recipe: Path) -> str | None:
    """Train in a separate process; returns the error message, if any."""
    command = [sys.executable, "-m", "transevolve.training.case", str(recipe)]
    last = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        with forwarding(running) as received:
            for line in running.stderr:
                say(f"    {line.rstrip()}")
                last = line.strip() or last
            running.wait()
    if received or running.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    return (last.removeprefix("transevolve: error: ") or "no message") if running.returncode else None


@contextmanager
def forwarding(running: subprocess.Popen) -> Iterator[list[int]]:
    """Forward signals, so that training saves and stops before the sweep does; yields the received signals."""
    received: list[int] = []

    def forward(number: int, frame: Any) -> None:
        received.append(number)
        running.send_signal(number)

    signals = (signal.SIGINT, signal.SIGTERM) if current_thread() is main_thread() else ()
    before = {number: signal.signal(number, forward) for number in signals}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def title(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key.split('.')[-1]} {value}" for key, value in settings.items()) or "the recipe itself"


def slug(settings: dict[str, Any]) -> str:
    return re.sub(r"[^\w.=-]+", "-", "_".join(f"{k.split('.')[-1]}={v}" for k, v in settings.items())) or "recipe"


def table(outcomes: list[Outcome]) -> tuple[list[str], list[list[str]]]:
    metric = next((o.results[0]["selected_by"] for o in outcomes if o.results), "accuracy")
    tested = [result["test"] for outcome in outcomes for result in outcome.results if result["test"]]
    shown = [metric, *(name for name in (tested or [{}])[0] if name not in (metric, "loss"))]
    columns = ["case", "parameters", "seeds", f"validation {metric}", *(f"test {name}" for name in shown)]
    columns += ["core-hours", "s / epoch", "tokens/s", "note"]
    rows = []
    for outcome in outcomes:
        found = outcome.results
        numbers = [
            f"{found[0]['parameters'] / 1e6:.2f}M" if found else "",
            str(len(found)),
            _mean([r["validation"][metric] for r in found]),
            *(_mean([r["test"][name] for r in found if r["test"]]) for name in shown),
            _mean([r["seconds"] * int(r["machine"]["threads"]) / 3600 for r in found], 2),
            _mean([r["seconds_per_epoch"] for r in found], 0),
            _mean([r["tokens_per_second"] for r in found], 0),
        ]
        rows.append([title(outcome.settings), *numbers, outcome.error or ""])
    return columns, [*rows, *(_yardstick(outcomes, len(columns)) if metric == "accuracy" else [])]


def _yardstick(outcomes: list[Outcome], columns: int) -> list[list[str]]:
    """A row per simple method that runs were compared with."""
    found = next((r["yardstick"] for o in outcomes for r in o.results if r.get("yardstick")), {})
    rows = []
    for name in ("logistic_regression", "naive_bayes"):
        scores = found.get(name)
        if scores:
            numbers = [_mean([scores[split]] if split in scores else []) for split in ("validation", "test")]
            cells = [f"bag of words, {name.replace('_', ' ')}", "", "", *numbers]
            rows.append(cells + [""] * (columns - len(cells)))
    return rows


def _mean(values: list[float], digits: int = 4) -> str:
    if not values:
        return ""
    mean = f"{statistics.fmean(values):,.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):,.{digits}f}"


def recipe_of(sweep: Sweep) -> str:
    return " ".join([public(sweep.recipe), *(f"{key}={public(value)}" for key, value in sweep.settings.items())])


def write_tables(sweep: Sweep, folder: Path, outcomes: list[Outcome]) -> None:
    """Write sweep.json and sweep.md, after every case."""
    from ..core.tables import markdown

    machines = [result["machine"] for outcome in outcomes for result in outcome.results]
    facts = {key: " and ".join(dict.fromkeys(facts[key] for facts in machines)) for key in (machines or [{}])[0]}
    header = {"recipe": recipe_of(sweep), **{k: v for k, v in facts.items() if k != "load"}}
    columns, cells = table(outcomes)
    reading = "Mean and standard deviation over seeds. Validation selects the checkpoint; test is scored once, after."
    write_atomically(folder / "sweep.md", markdown("Sweep", header, columns, cells, reading))
    content = {"header": header, "cases": [vars(outcome) for outcome in outcomes]}
    write_atomically(folder / "sweep.json", json.dumps(content, indent=1) + "\n")


def plan_table(plans: list[tuple[dict[str, Any], int, Plan]]) -> tuple[list[str], list[list[str]]]:
    columns = ["case", "seeds", "steps", "precision", "tokens/s", "time per seed", "core-hours per seed"]
    rows = []
    for settings, seeds, found in plans:
        numbers = [str(seeds), f"{found.steps:,}", found.precision, f"{found.rate:,.0f}"]
        rows.append([title(settings), *numbers, clock(found.seconds), f"{found.core_seconds / 3600:.1f}"])
    return columns, rows


def write_plans(sweep: Sweep, folder: Path, plans: list[tuple[dict[str, Any], int, Plan]]) -> None:
    """Write plan.json: the estimated cost, on this machine, of the cases that are not recorded."""
    header = {"recipe": recipe_of(sweep), **describe_machine()}
    kept = ("system", "precision", "steps", "parameters", "measured", "rate", "seconds", "core_seconds")
    rows = [{"settings": s, "seeds": n, **{key: getattr(found, key) for key in kept}} for s, n, found in plans]
    write_atomically(folder / "plan.json", json.dumps({"header": header, "cases": rows}, indent=1) + "\n")


def most_frequent(outcomes: list[Outcome]) -> float | None:
    """The accuracy of always predicting the most frequent class, on test or else validation."""
    result = next((o.results[0] for o in outcomes if o.results), None)
    if result is None or result["selected_by"] != "accuracy":
        return None
    splits = result["data"]["splits"]
    counts = splits["test" if result["test"] else "validation"]["classes"].values()
    return max(counts) / sum(counts)


def plot(sweep: Sweep, outcomes: list[Outcome], path: Path) -> None:
    """Plot validation over the first key of the grid; without a grid over epochs, or many cases side by side."""
    done = [outcome for outcome in outcomes if outcome.results]
    if not done:
        return
    metric = done[0].results[0]["selected_by"]
    many = len(done) > MOST_CURVES and not sweep.grid
    figure = new_figure(7, 0.3 * len(done) + 1 if many else 4.5)
    axis = figure.subplots()
    if many:
        done.sort(key=lambda outcome: _validation(outcome, metric))
        for height, outcome in enumerate(done):
            scores = [result["validation"][metric] for result in outcome.results]
            axis.plot(scores, [height] * len(scores), "o", alpha=0.7)
        axis.set(xlabel=f"validation {metric}, one dot per seed", yticks=range(len(done)))
        axis.set_yticklabels([plain(title(outcome.settings), 40) for outcome in done])
    else:
        key, lines = _over_grid(sweep, done, metric) if sweep.grid else ("epoch", _over_epochs(done, metric))
        for name, points in lines.items():
            axis.plot([x for x, _ in points], [y for _, y in points], "o-", label=plain(name))
        axis.set(xlabel=plain(key), ylabel=f"validation {metric}")
        axis.legend()
        if not sweep.grid:
            integer_ticks(axis)
    axis.grid(alpha=0.3)
    save(figure, path, dpi=130)


def _validation(outcome: Outcome, metric: str) -> float:
    return statistics.fmean(result["validation"][metric] for result in outcome.results)


def _over_grid(sweep: Sweep, done: list[Outcome], metric: str) -> tuple[str, dict[str, list[tuple[Any, float]]]]:
    key = next(iter(sweep.grid))
    lines: dict[str, list[tuple[Any, float]]] = {}
    for outcome in done:
        name = title({k: value for k, value in outcome.settings.items() if k != key})
        lines.setdefault(name, []).append((plain(str(outcome.settings[key])), _validation(outcome, metric)))
    return key, lines


def _over_epochs(done: list[Outcome], metric: str) -> dict[str, list[tuple[Any, float]]]:
    """One line per case, for its first seed."""
    return {title(o.settings): [(row["epoch"], row[metric]) for row in o.results[0]["epochs"]] for o in done}
