"""Renders tables.md from tables.md.jinja and the records of sweeps and benchmarks: `python results/tables.py`."""

import json
import statistics
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

HERE = Path(__file__).parent
PERCENT = ("accuracy", "macro_f1")
CONDITIONS = {"device": "", "cpu flags": "with", "threads": "threads", "precision": "precision"}
CONDITIONS |= {"python": "python", "torch": "torch", "transformers": "transformers", "commit": "commit"}


def cases(table: str, file: str = "sweep.json") -> list[dict[str, Any]]:
    """The cases of a sweep, from its folder of records or a file; none if it was not run."""
    path = HERE / table
    path = path if path.suffix else path / file
    return json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else []


def has(case: dict[str, Any], settings: dict[str, Any]) -> bool:
    """Whether the case has these settings, and no other ones but those that name a system."""
    own = ("variant", "system", "attention", "settings", "block_depth")
    found = {key.split(".")[-1]: value for key, value in case["settings"].items()}
    return {key: value for key, value in found.items() if key not in own or key in settings} == settings


def results(table: str, system: str, **settings: Any) -> list[dict[str, Any]]:
    """The results of a system by seed; `settings` are those that the case must have in addition, such as evolution."""
    for case in cases(table):
        if case["results"] and case["results"][0]["system"] == system and has(case, settings):
            return case["results"]
    return []


def score(table: str, system: str, metric: str = "accuracy", split: str = "test", **settings: Any) -> str:
    """Mean over seeds, with the standard deviation if there are several."""
    values = [result[split][metric] for result in results(table, system, **settings) if result[split]]
    return mean([100 * value if metric in PERCENT else value for value in values], 1)


def hours(table: str, system: str, **settings: Any) -> str:
    """Core-hours of a training; in italics those it would take, as estimated by `transevolve sweep --plan`."""
    found = results(table, system, **settings)
    if found:
        return mean([result["seconds"] * int(result["machine"]["threads"]) / 3600 for result in found], 2)
    planned = (case for case in cases(table, "plan.json") if case["system"] == system and has(case, settings))
    return next((f"*{case['core_seconds'] / 3600:.1f}*" for case in planned), "")


def conditions(table: str) -> str:
    """How the cases of a sweep were computed: machine, threads, precision and versions, from their records."""
    facts = [result["machine"] for case in cases(table) for result in case["results"]]
    if not facts:
        return "not trained yet"
    each = {key: " and ".join(dict.fromkeys(str(one.get(key, "not recorded")) for one in facts)) for key in CONDITIONS}
    return ", ".join(f"{name} {each[key]}".strip() for key, name in CONDITIONS.items())


def parameters(table: str, system: str, **settings: Any) -> str:
    found = results(table, system, **settings)
    return f"{found[0]['parameters'] / 1e6:.2f}M" if found else ""


def yardstick(table: str, name: str) -> str:
    found = [result["yardstick"] for case in cases(table) for result in case["results"] if result.get("yardstick")]
    return f"{100 * found[0][name]['test']:.1f}" if found else ""


def speed(system: str, against: str, table: str = "speed/systems.json") -> str:
    """Tokens per second at each length, relative to another system."""
    seconds: dict[tuple[str, int], float] = {}
    for row in json.loads((HERE / table).read_text(encoding="utf-8"))["rows"]:
        seconds[row["system"], row["length"]] = statistics.median(row["seconds"])
    lengths = sorted({length for _, length in seconds})
    return " / ".join(f"{seconds[against, n] / seconds[system, n]:.2f}" for n in lengths)


def mean(values: list[float], digits: int) -> str:
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


def rendered() -> str:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    functions = {f.__name__: f for f in (score, hours, conditions, parameters, yardstick, speed)}
    return environment.from_string((HERE / "tables.md.jinja").read_text(encoding="utf-8")).render(functions)


if __name__ == "__main__":
    (HERE / "tables.md").write_text(rendered(), encoding="utf-8")
