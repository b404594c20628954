"""A model card from a run's own facts: its results and its recipe, nothing that was not measured."""

from dataclasses import asdict
from typing import Any

import yaml
from transformers import PreTrainedConfig

from ..config.recipe import Recipe
from ..core.json_files import fits
from ..kinds.base import Kind


def model_card(name: str, recipe: Recipe, result: dict[str, Any] | None, kind: Kind, config: PreTrainedConfig) -> str:
    """README.md."""
    parts = [f"# {name}", _what(recipe, result, kind.description(config))]
    parts += ["## Use", f"```python\n{kind.snippet(name, config)}\n```"]
    parts += ["## Results", *(_results(result) if result else ["This run has no results.json: nothing was recorded."])]
    if result:
        parts += ["## Training", *_training(result)]
    parts += ["## Recipe", f"```yaml\n{_settings(recipe)}```"]
    return f"---\n{_front(name, recipe, result, kind.pipeline_tag)}---\n\n" + "\n\n".join(parts) + "\n"


def _front(name: str, recipe: Recipe, result: dict[str, Any] | None, tag: str) -> str:
    front: dict[str, Any] = {"library_name": "transformers", "pipeline_tag": tag, "tags": ["transevolve", tag]}
    scored = _scored(result)
    if scored:
        metrics = [{"type": metric, "name": f"{split} {metric}", "value": value} for split, metric, value in scored]
        dataset = {"type": recipe.data.hub or recipe.data.task, "name": recipe.data.task}
        front["model-index"] = [
            {"name": name, "results": [{"task": {"type": tag}, "dataset": dataset, "metrics": metrics}]}
        ]
    return yaml.safe_dump(front, sort_keys=False, allow_unicode=True)


def _scored(result: dict[str, Any] | None) -> list[tuple[str, str, float]]:
    splits = [(split, (result or {}).get(split) or {}) for split in ("test", "validation")]
    return [(s, m, float(v)) for s, found in splits for m, v in found.items() if isinstance(v, int | float)]


def _what(recipe: Recipe, result: dict[str, Any] | None, does: str) -> str:
    system = (result or {}).get("system") or recipe.model.variant or recipe.model.system
    size = f", {result['parameters']:,} parameters" if result and "parameters" in result else ""
    about = "[TransEvolve](https://arxiv.org/abs/2109.15142): attention computed once and evolved over depth"
    if recipe.model.system != "transevolve":
        about = "a system of the `transevolve` package"
    return f"A model that {does}. It is `{system}`{size}. {about[0].upper() + about[1:]}."


def _results(result: dict[str, Any]) -> list[str]:
    rows = [f"| {split} | {metric} | {value:.4f} |" for split, metric, value in _scored(result)]
    table = "\n".join(["| split | metric | value |", "|---|---|---|", *rows])
    chosen = f"The model was selected by {result.get('selected_by')} on {result.get('selected_on')}"
    return [table, f"{chosen}; the test split, where there is one, was scored once, afterwards."]


def _training(result: dict[str, Any]) -> list[str]:
    facts = [
        ("command", f"`{result.get('command')}`"),
        ("time", f"{result.get('seconds', 0):,.0f} s, {result.get('seconds_per_epoch', 0):,.1f} s an epoch"),
        ("seed", result.get("seed")),
        *result.get("machine", {}).items(),
    ]
    splits = result.get("data", {}).get("splits")
    if fits(splits, dict[str, dict[str, Any]]):
        facts += [(f"{name} rows", split.get("rows", 0)) for name, split in splits.items()]
    return ["\n".join(f"- {key}: {value}" for key, value in facts)]


def _settings(recipe: Recipe) -> str:
    """The recipe without what was left to its default of nothing."""
    told = {group: _given(values) for group, values in asdict(recipe).items() if isinstance(values, dict)}
    return yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=100)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
