"""All kinds of task by name. To add a kind, write a file and add a line here."""

from pathlib import Path

from transformers import AutoConfig, PreTrainedConfig

from ..config.learning import PAIR_PATIENCE, START_PATIENCE
from ..config.recipe import Recipe
from ..core.errors import UserError, nearest, quoted
from ..data import TextData
from ..data.pair_tokenizers import is_paired
from ..data.registry import TASKS, task_of
from ..runs.folder import load_errors
from .base import Kind
from .causal import Causal
from .classification import Classification
from .masked import Masked
from .multilabel import MultiLabel
from .regression import Regression
from .tokens import Tokens
from .translation import Translation

KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    """Register a kind and its tasks."""
    KINDS[kind.name] = kind
    TASKS.update(kind.tasks)


register(Classification())
register(Translation())
register(Regression())
register(Masked())
register(Causal())
register(MultiLabel())
register(Tokens())


def kind_of(recipe: Recipe) -> Kind:
    """The kind of a recipe's task. An unknown task raises an error when its data are loaded."""
    task = TASKS.get(task_of(recipe.data))
    return KINDS[task.kind if task is not None else "classification"]


def kind_of_model(recipe: Recipe, config: PreTrainedConfig) -> Kind:
    """The kind of a saved model: that of its recipe, if it matches the configuration."""
    kinds = [kind_of(recipe), *KINDS.values()]
    kind = next((kind for kind in kinds if kind.fits(config)), None)
    if kind is None:
        raise UserError(f"{config.name_or_path} does not load: its config.json does not match any kind of task")
    return kind


def read_config(folder: Path) -> PreTrainedConfig:
    with load_errors(folder):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def higher_is_better(metric: str) -> bool:
    """Whether a higher value of a metric is better."""
    return next((kind.metrics[metric] for kind in KINDS.values() if metric in kind.metrics), True)


def resolve(recipe: Recipe) -> Kind:
    """Set the defaults of the kind of task, and raise an error for settings that it cannot use."""
    kind = kind_of(recipe)
    for key, reason in kind.refused.items():
        if recipe.get(key):
            raise UserError(f"{key} {reason}: remove it")
    for key, value in kind.defaults.items():
        recipe.set_default(key, value)
    select = recipe.training.select
    if select is None:
        recipe.training.select = next(iter(kind.metrics))
    elif select not in kind.metrics:
        raise UserError(
            f"training.select={select} does not exist in {kind.name}: choose from {quoted(kind.metrics)}"
            f"{nearest(select, kind.metrics)}"
        )
    return kind


def decide(kind: Kind, recipe: Recipe, data: TextData) -> list[str]:
    """Set defaults that depend on the data; returns the keys that were set."""
    found = {"training.patience": _patience(kind, recipe, data), **kind.decide(recipe, data)}
    return [key for key, value in found.items() if recipe.set_default(key, value)]


def _patience(kind: Kind, recipe: Recipe, data: TextData) -> int:
    """The default patience: 0 if the user sets the length of training."""
    if recipe.training.epochs is not None or recipe.training.max_steps is not None:
        return 0
    if is_paired(data.tokenizer):
        return PAIR_PATIENCE
    return START_PATIENCE if recipe.model.start is not None else kind.patience
