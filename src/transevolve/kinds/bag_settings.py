"""Default settings of models that start as a bag of words, and of those that cannot."""

from typing import Any

from ..config.learning import PLAIN, bag_defaults, small_range
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import TextData
from ..data.vector_files import vector_width
from ..data.views import column_array
from ..models.settings import DEFAULT_VARIANT, SIZES, VARIANTS

SHAPE = {"model.hidden_size", "model.num_attention_heads", "model.intermediate_size", "model.block_depth"}


def decided_for_texts(recipe: Recipe, data: TextData, bag: bool) -> dict[str, Any]:
    """Defaults of a model of texts; `bag` is whether it starts as a bag of words unless the recipe says otherwise."""
    model, training = recipe.model, recipe.training
    start = model.initialization or ("bag" if bag else "authors")
    found = {**PLAIN, "model.initialization": start}
    if start != "bag" and model.bigrams and model.start is None:
        raise UserError(f"model.bigrams {model.bigrams} needs model.initialization bag, which selects the pairs")
    if start == "authors":
        return found
    if start == "bag":
        assert data.train is not None
        blocks = model.num_blocks or VARIANTS[model.variant or DEFAULT_VARIANT]["num_blocks"]
        tokens = int(column_array(data.train, "length").sum())
        own = bag_defaults(len(data.train), tokens, len(data.labels), blocks)
        if model.size is not None:
            own = {key: value for key, value in own.items() if key not in SHAPE}
        elif model.hidden_size is not None:
            own |= _shape(model.hidden_size)
        elif model.vectors is not None:
            width = 64 * -(-(vector_width(model.vectors) + len(data.labels)) // 64)
            own |= {"model.hidden_size": width, **_shape(width)}
        if training.batch_tokens is not None:
            del own["training.batch_size"]
        if training.epochs is not None or training.max_steps is not None or not data.report.validation_cut:
            own["training.refit"] = False
        found |= own
        if model.size is None:
            del found["model.size"]
    width = model.hidden_size or found.get("model.hidden_size") or SIZES[model.size or "small"]["hidden_size"]
    return {**found, "model.initializer_range": small_range(width)}


def _shape(width: int) -> dict[str, int]:
    heads = next(heads for heads in range(max(1, width // 32), 0, -1) if width % (2 * heads) == 0 or heads == 1)
    return {"model.num_attention_heads": heads, "model.intermediate_size": 4 * width}


def decided_without_bag(recipe: Recipe, noun: str, default: str) -> dict[str, Any]:
    """Defaults of a model that cannot start as a bag of words; `default` is its initialization unless one is set."""
    model = recipe.model
    chosen = {"initialization": model.initialization == "bag", "vectors": model.vectors, "bigrams": model.bigrams}
    for name, value in chosen.items():
        if value:
            raise UserError(f"model.{name} {getattr(model, name)} is for classes of texts, not for {noun}")
    start = model.initialization or default
    width = model.hidden_size or SIZES[model.size or "small"]["hidden_size"]
    small = {"model.initializer_range": small_range(width)} if start == "small" else {}
    return {**PLAIN, "model.initialization": start, **small}
