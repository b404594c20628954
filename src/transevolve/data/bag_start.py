"""Initial values of a model from its training texts: token vectors, output weights, pooling weights, seen tokens."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .encoding import Encoded
from .naive_bayes import class_weights, counts_by_class, taught_counts, token_counts, vector_teacher
from .token_values import token_values
from .vectors import Counter, cooccurrence_vectors, log_idf

LEAST_COUNT = 5
PAIRS_PER_SLOT = 4
"""Because hashes collide, this many pairs fill 98 % of the slots."""


@dataclass(frozen=True)
class BagStart:
    """One row per token: `vectors` of norm 1 (zero if unknown), `classes`, `log_idf`, and `seen`.

    `classes` are the weights of naive Bayes, or a column of values for numbers. `pairs` are the most frequent
    neighbouring tokens.
    """

    vectors: np.ndarray
    classes: np.ndarray
    log_idf: np.ndarray
    seen: np.ndarray
    pairs: np.ndarray


def bag_start(
    ids: np.ndarray,
    offsets: np.ndarray,
    targets: np.ndarray | None,
    *,
    vocab_size: int,
    width: int,
    special: Sequence[int],
    unlabelled: Iterable[np.ndarray] = (),
    seed: int = 0,
    bigrams: int = 0,
    progress: Callable[[int], None] | None = None,
) -> BagStart:
    """From labelled texts, text i being `ids[offsets[i]:offsets[i + 1]]`, and unlabelled ones, which are read twice.

    `targets` is (rows, classes), 1 where a text is of a class; or (rows,), a number for each text; or None.
    Of the `width` dimensions the last `classes` belong to them, if they leave at least as many to co-occurrence.
    Special tokens are seen if labelled texts contain them.
    """
    labelled = Encoded(ids, offsets).rows()
    counts = Counter(vocab_size, special, progress=progress).add(labelled).add(unlabelled).counts
    by_row = token_counts(ids, offsets, vocab_size)
    outputs = 0 if targets is None else 1 if targets.ndim == 1 else targets.shape[1]
    reserved = outputs if 2 * outputs <= width else 0
    vectors = cooccurrence_vectors(counts, width - reserved, seed)
    weight = log_idf(counts.documents, counts.rows)
    weight[list(special)] = 0.0
    if targets is None or not reserved:
        classes = np.zeros((vocab_size, 0), dtype=np.float32)
    elif targets.ndim == 1:
        classes = token_values(by_row, targets, np.exp(weight))[:, None]
        classes[list(special)] = 0.0
    else:
        by_class = counts_by_class(by_row, targets)
        labels = targets.argmax(axis=1)
        single = (targets.sum(axis=1) == 1).all() and len(np.unique(labels)) > 1
        if counts.rows > by_row.shape[0] and single:
            teacher = vector_teacher(by_row, labels, outputs, vectors, np.exp(weight))
            by_class += taught_counts(unlabelled, teacher, vocab_size, outputs)
        by_class[list(special)] = 0.0
        classes = class_weights(by_class)
    present = np.asarray(by_row.sum(axis=0)).ravel() > 0
    return BagStart(
        vectors=vectors,
        classes=classes,
        log_idf=weight,
        seen=present | (counts.tokens > 0),
        pairs=frequent_pairs(ids, offsets, PAIRS_PER_SLOT * bigrams, vocab_size, special),
    )


def frequent_pairs(
    ids: np.ndarray, offsets: np.ndarray, most: int, vocab_size: int, special: Sequence[int]
) -> np.ndarray:
    """(pairs, 2): the most frequent pairs of neighbouring tokens, in this order; each occurs at least five times."""
    if not most:
        return np.zeros((0, 2), dtype=np.int64)
    text = ~np.isin(ids, list(special))
    together = text[1:] & text[:-1]
    together[offsets[1:-1] - 1] = False
    keys, counts = np.unique((ids[:-1].astype(np.int64) * vocab_size + ids[1:])[together], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:most]
    kept = keys[order[counts[order] >= LEAST_COUNT]]
    return np.stack([kept // vocab_size, kept % vocab_size], axis=1)
