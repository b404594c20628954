"""A classifier that starts as a bag of words: what that decides in its recipe, and how its weights get it."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from transformers import PreTrainedModel

from ..config.learning import PLAIN, bag_defaults, small_range
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.messages import say
from ..data import TextData
from ..data.bag_start import BagStart, bag_start
from ..data.cache_folder import cache_folder
from ..data.encoding import joined_ids
from ..data.entry import tokenizer_digest
from ..data.kept import kept_arrays, key_of_parts
from ..data.unlabelled import unlabelled_ids, unlabelled_key
from ..data.vector_files import read_vectors, tokenizer_words, vector_width
from ..data.vectors import unit_rows
from ..data.views import column_array, joined_rows
from ..models.settings import SIZES, VARIANTS
from ..models.start import start_as_bag

MOST_TOKENS = 10_000_000
"""Tokens of the labelled texts that a start is computed from."""
START_VERSION = "2"
SHAPE = {"model.hidden_size", "model.num_attention_heads", "model.intermediate_size", "model.block_depth"}


def decided_for_texts(recipe: Recipe, data: TextData, bag: bool) -> dict[str, Any]:
    """Defaults of a model of texts; `bag` is whether it starts as a bag of words unless the recipe says otherwise."""
    model, training = recipe.model, recipe.training
    start = model.initialization or ("bag" if bag else "authors")
    found = {**PLAIN, "model.initialization": start}
    if start != "bag" and model.bigrams and model.start is None:
        raise UserError(f"model.bigrams {model.bigrams} needs model.initialization bag: its pairs come from there")
    if start == "authors":
        return found
    if start == "bag":
        assert data.train is not None
        blocks = model.num_blocks or VARIANTS[model.variant or "fullFF-1"]["num_blocks"]
        tokens = int(column_array(data.train, "length").sum())
        own = bag_defaults(len(data.train), len(data.labels), blocks, tokens)
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


def start_from_texts(model: PreTrainedModel, recipe: Recipe, data: TextData, multi_hot: np.ndarray | None) -> None:
    """Puts word vectors, document frequencies and class weights of the training texts into a fresh model.

    `multi_hot` has a row for each text and a column for each class; None where labels are no classes.
    """
    assert data.train is not None
    lengths, seed = column_array(data.train, "length"), recipe.training.seed
    if lengths.sum() <= MOST_TOKENS:
        ids, offsets = joined_ids(data.train)
    else:
        drawn = rows_within(lengths, MOST_TOKENS, seed)
        say(f"word vectors and class weights start from {len(drawn):,} of {len(lengths):,} training rows")
        ids, offsets = joined_rows(data.train, drawn)
        multi_hot = None if multi_hot is None else multi_hot[drawn]
    found = _kept_start(model.config.hidden_size, recipe, data, ids, offsets, multi_hot)
    if recipe.model.vectors is not None:
        found = _with_file(found, recipe.model.vectors, data)
    start_as_bag(model, **vars(found))


def _kept_start(
    width: int, recipe: Recipe, data: TextData, ids: np.ndarray, offsets: np.ndarray, multi_hot: np.ndarray | None
) -> BagStart:
    """From the cache if it was computed before from the same tokens, labels and settings."""
    unlabelled, column, cache = recipe.data.unlabelled, recipe.data.text, cache_folder(recipe.data.cache)
    settings = {
        "vocab_size": len(data.tokenizer),
        "width": width,
        "special": sorted(data.tokenizer.all_special_ids),
        "seed": recipe.training.seed,
        "bigrams": recipe.model.bigrams or 0,
    }

    def compute() -> dict[str, np.ndarray]:
        texts = () if unlabelled is None else unlabelled_ids(unlabelled, data.tokenizer, column, cache)
        if unlabelled is not None:
            say(f"counting words of {unlabelled}")
        return vars(bag_start(ids, offsets, multi_hot, **settings, unlabelled=texts))

    labels = "no classes" if multi_hot is None else multi_hot
    texts = "" if unlabelled is None else unlabelled_key(unlabelled, column) + tokenizer_digest(data.tokenizer)
    key = key_of_parts(START_VERSION, np.__version__, scipy.__version__, str(settings), texts, ids, offsets, labels)
    return BagStart(**kept_arrays(cache / f"start-{key}.npz", compute))


def rows_within(lengths: np.ndarray, tokens: int, seed: int) -> np.ndarray:
    """Random rows of so many tokens at most, in order; at least one."""
    order = np.random.RandomState(seed).permutation(len(lengths))
    return np.sort(order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), tokens, side="right")))])


def _with_file(start: BagStart, path: str, data: TextData) -> BagStart:
    """The start with vectors of a file instead of its own; words that the file does not have keep none."""
    room = start.vectors.shape[1]
    vectors, found = read_vectors(path, tokenizer_words(data.tokenizer), room)
    placed = np.zeros_like(start.vectors)
    placed[: len(vectors), : vectors.shape[1]] = unit_rows(vectors)
    say(f"{int(found.sum()):,} of {len(placed):,} tokens have a vector in {path}")
    return replace(start, vectors=placed)


def require_no_bag(recipe: Recipe, noun: str) -> None:
    for name, value in (
        ("initialization", recipe.model.initialization == "bag"),
        ("vectors", recipe.model.vectors),
        ("bigrams", recipe.model.bigrams),
    ):
        if value:
            raise UserError(f"model.{name} {getattr(recipe.model, name)} is for classes of texts, not for {noun}")
