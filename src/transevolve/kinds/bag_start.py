"""The weights of a model that starts as a bag of words, from its training texts."""

from dataclasses import replace

import numpy as np
import scipy
from transformers import PreTrainedModel

from ..config.recipe import Recipe
from ..core.messages import say
from ..data import TextData
from ..data.bag_start import BagStart, bag_start
from ..data.cache_folder import cache_folder
from ..data.encoding import joined_ids
from ..data.entry import tokenizer_digest
from ..data.kept import kept_arrays, key_of_parts
from ..data.unlabelled import unlabelled_ids, unlabelled_key
from ..data.vector_files import read_vectors, tokenizer_words
from ..data.vectors import unit_rows
from ..data.views import column_array, joined_rows
from ..models.start import start_as_bag

MOST_TOKENS = 10_000_000
"""The maximum number of tokens of labelled texts from which the initial values are computed."""
START_VERSION = "2"


def start_from_texts(model: PreTrainedModel, recipe: Recipe, data: TextData, targets: np.ndarray | None) -> None:
    """Initializes a model with word vectors, document frequencies and class weights of the training texts.

    `targets` has a row for each text and a column for each class, or a number for each text; None if there are neither.
    """
    assert data.train is not None
    lengths, seed = column_array(data.train, "length"), recipe.training.seed
    if lengths.sum() <= MOST_TOKENS:
        ids, offsets = joined_ids(data.train)
    else:
        drawn = rows_within(lengths, MOST_TOKENS, seed)
        say(f"word vectors and class weights are computed from {len(drawn):,} of {len(lengths):,} training rows")
        ids, offsets = joined_rows(data.train, drawn)
        targets = None if targets is None else targets[drawn]
    found = _kept_start(model.config.hidden_size, recipe, data, ids, offsets, targets)
    if recipe.model.vectors is not None:
        found = _with_file(found, recipe.model.vectors, data)
    start_as_bag(model, **vars(found))


def _kept_start(
    width: int, recipe: Recipe, data: TextData, ids: np.ndarray, offsets: np.ndarray, targets: np.ndarray | None
) -> BagStart:
    """The initial values, from the cache if they were computed before from the same tokens, labels and settings."""
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
        return vars(bag_start(ids, offsets, targets, **settings, unlabelled=texts))

    labels = "no classes" if targets is None else targets
    texts = "" if unlabelled is None else unlabelled_key(unlabelled, column) + tokenizer_digest(data.tokenizer)
    key = key_of_parts(START_VERSION, np.__version__, scipy.__version__, str(settings), texts, ids, offsets, labels)
    return BagStart(**kept_arrays(cache / f"start-{key}.npz", compute))


def rows_within(lengths: np.ndarray, tokens: int, seed: int) -> np.ndarray:
    """A random sample of rows, in order, with at most `tokens` tokens in total; at least one row."""
    order = np.random.RandomState(seed).permutation(len(lengths))
    return np.sort(order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), tokens, side="right")))])


def _with_file(start: BagStart, path: str, data: TextData) -> BagStart:
    """Replaces the word vectors by those of a file; words that are not in the file have a zero vector."""
    room = start.vectors.shape[1]
    vectors, found = read_vectors(path, tokenizer_words(data.tokenizer), room)
    placed = np.zeros_like(start.vectors)
    placed[: len(vectors), : vectors.shape[1]] = unit_rows(vectors)
    say(f"{int(found.sum()):,} of {len(placed):,} tokens have a vector in {path}")
    return replace(start, vectors=placed)
