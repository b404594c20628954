"""Fills unset values of the recipe with those that were used."""

from dataclasses import fields
from typing import Any

from transformers import PreTrainedModel

from ..config.recipe import Recipe
from ..data import TextData
from ..data.batching import Batches
from ..data.registry import TASKS, task_of
from ..models.config import TransEvolveConfig
from ..models.peer_config import PeerConfig
from ..models.settings import ModelSettings, PeerSettings


def fill_in(recipe: Recipe, data: TextData, model: PreTrainedModel, batches: Batches) -> list[str]:
    """Set values that are None to those of the task, the model and the batches; returns the keys that were set."""
    uses, found = TASKS[task_of(recipe.data)].uses, {**data.report.columns, **data.report.settings}
    used = {f"data.{name}": value for name, value in found.items() if name in uses}
    used |= {f"model.{name}": value for name, value in _model_settings(recipe, model).items()}
    if recipe.training.batch_size is None:
        used["training.batch_tokens"] = batches.tokens
    if recipe.training.memory is None:
        used["training.accumulation"] = batches.parts
    return [key for key, value in used.items() if value is not None and recipe.set_default(key, value)]


def _model_settings(recipe: Recipe, model: PreTrainedModel) -> dict[str, Any]:
    options, config = recipe.model, model.config
    kind = {TransEvolveConfig: ModelSettings, PeerConfig: PeerSettings}.get(type(config))
    names = [] if kind is None else [f.name for f in fields(kind) if hasattr(options, f.name)]
    found = {name: getattr(config, name) for name in names}
    if isinstance(config, TransEvolveConfig):
        return {"variant": options.label, **found}
    if isinstance(config, PeerConfig):
        found |= {"num_blocks": 1, "block_depth": config.num_hidden_layers // (options.num_blocks or 1)}
    return found
