"""Fills unset values of the recipe with those that were used."""

from dataclasses import fields
from typing import Any

from transformers import PreTrainedModel

from ..config.recipe import MARIAN, Recipe
from ..data import TextData
from ..data.batching import Batches
from ..data.registry import TASKS, task_of
from ..kinds.systems import shared_settings
from ..models.settings import ModelSettings


def fill_in(recipe: Recipe, data: TextData, model: PreTrainedModel, batches: Batches) -> list[str]:
    """Set values that are None to those of the task, the model and the batches; returns the keys that were set."""
    uses, found = TASKS[task_of(recipe.data)].uses, {**data.report.columns, **data.report.settings}
    used = {f"data.{name}": value for name, value in found.items() if name in uses}
    used |= {f"model.{name}": value for name, value in _model_settings(recipe, model).items()}
    if recipe.training.batch_size is None:
        used["training.batch_tokens"] = batches.tokens
    if recipe.training.memory is None:
        used["training.accumulation"] = batches.parts
    filled = []
    for key, value in used.items():
        section, name = key.split(".")
        options = getattr(recipe, section)
        if value is not None and getattr(options, name) is None:
            setattr(options, name, value)
            filled.append(key)
    return filled


def _model_settings(recipe: Recipe, model: PreTrainedModel) -> dict[str, Any]:
    options, config = recipe.model, model.config
    if options.system == MARIAN:
        return {}
    names = {f.name for f in fields(ModelSettings)} if options.is_ours else shared_settings(options.system)
    found = {name: getattr(config, name, None) for name in names if hasattr(options, name)}
    if options.is_ours:
        return {"variant": options.label, **found}
    return {**found, "num_blocks": 1, "block_depth": config.num_hidden_layers // (options.num_blocks or 1)}
