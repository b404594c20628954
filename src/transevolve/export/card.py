"""Model cards from the results and the recipe of a run. Paths of the local machine are removed."""

import json
from dataclasses import asdict
from typing import Any

from transformers import PreTrainedConfig

from ..config.recipe import Recipe
from ..core.pages import render
from ..core.public import public, public_command
from ..core.yaml_files import dump_yaml
from ..kinds.base import Kind

TEMPLATE = "card.md"
MAX_LABELS = 100
UNKNOWN_LICENSE = "unknown"
ABOUT = "[TransEvolve](https://arxiv.org/abs/2109.15142): attention is computed once and evolved over depth."
ABOUT_PEER = "One of the systems of the `transevolve` package."


def model_card(
    name: str,
    recipe: Recipe,
    result: dict[str, Any] | None,
    kind: Kind,
    config: PreTrainedConfig,
    license: str = UNKNOWN_LICENSE,
) -> str:
    """Returns the content of README.md."""
    found = result or {}
    return render(
        TEMPLATE,
        name=name,
        front=dump_yaml(_front_matter(name, recipe, result, kind.pipeline_tag, license)),
        task=kind.description(config),
        system=str(found.get("system") or recipe.model.variant or recipe.model.system),
        parameters=found.get("parameters"),
        about=ABOUT if recipe.model.is_ours else ABOUT_PEER,
        labels=kind.labels(config),
        max_labels=MAX_LABELS,
        snippet=kind.snippet(json.dumps(name, ensure_ascii=False), config),
        result={"selected_by": None, "selected_on": None, **result} if result else None,
        scores=_scores(result),
        facts=_facts(found),
        command=public_command(str(found.get("command", ""))),
        settings=dump_yaml(_settings(recipe)),
        license=license,
    )


def _front_matter(name: str, recipe: Recipe, result: dict[str, Any] | None, tag: str, license: str) -> dict[str, Any]:
    front = {"library_name": "transformers", "license": license, "pipeline_tag": tag, "tags": ["transevolve", tag]}
    metrics = [
        {"type": metric, "name": f"{split} {metric}", "value": value} for split, metric, value in _scores(result)
    ]
    if metrics:
        dataset = {"type": recipe.data.hub or recipe.data.task, "name": recipe.data.task}
        results = [{"task": {"type": tag}, "dataset": dataset, "metrics": metrics}]
        front["model-index"] = [{"name": name, "results": results}]
    return front


def _scores(result: dict[str, Any] | None) -> list[tuple[str, str, float]]:
    splits = [(split, (result or {}).get(split) or {}) for split in ("test", "validation")]
    return [(s, m, float(v)) for s, found in splits for m, v in found.items() if isinstance(v, int | float)]


def _facts(result: dict[str, Any]) -> list[tuple[str, Any]]:
    splits = result.get("data", {}).get("splits")
    splits = splits if isinstance(splits, dict) else {}
    seconds, per_epoch = result.get("seconds", 0), result.get("seconds_per_epoch", 0)
    return [
        ("time", f"{seconds:,.0f} s, {per_epoch:,.1f} s per epoch"),
        ("seed", result.get("seed")),
        *result.get("machine", {}).items(),
        *((f"{name} rows", split.get("rows", 0)) for name, split in splits.items() if isinstance(split, dict)),
    ]


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Returns the settings of the recipe that have a value."""
    groups = {group: values for group, values in asdict(recipe).items() if isinstance(values, dict)}
    return {
        group: {key: public(value) for key, value in values.items() if value is not None}
        for group, values in groups.items()
    }
