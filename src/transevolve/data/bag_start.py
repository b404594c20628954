"""All that a classifier starts with from its own texts: vectors, class weights, pooling weights, tokens seen."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .naive_bayes import class_weights, counts_by_class, taught_counts, token_counts, vector_teacher
from .vectors import Counter, cooccurrence_vectors, log_idf

LEAST_COUNT = 5
PAIRS_PER_SLOT = 4
"""Hashes collide: so many pairs fill 98 % of the slots."""


@dataclass(frozen=True)
class BagStart:
    """One row per token: `vectors` of norm 1 (zero if unknown), naive Bayes' `classes`, `log_idf`, and `seen`.

    `pairs` are the most frequent neighbouring tokens.
    """

    vectors: np.ndarray
    classes: np.ndarray
    log_idf: np.ndarray
    seen: np.ndarray
    pairs: np.ndarray


def bag_start(
    ids: np.ndarray,
    offsets: np.ndarray,
    multi_hot: np.ndarray | None,
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

    `multi_hot` is (rows, classes), 1 where a text is of a class; None if labels are no classes.
    Of the `width` dimensions the last `classes` belong to naive Bayes, if they leave at least as many to co-occurrence.
    Special tokens count as seen wherever labelled texts hold them.
    """
    labelled = (ids[a:b] for a, b in pairwise(offsets))
    counts = Counter(vocab_size, special, progress=progress).add(labelled).add(unlabelled).counts
    by_row = token_counts(ids, offsets, vocab_size)
    if multi_hot is None:
        multi_hot = np.zeros((by_row.shape[0], 0))
    classes = multi_hot.shape[1]
    reserved = classes if 2 * classes <= width else 0
    vectors = cooccurrence_vectors(counts, width - reserved, seed)
    weight = log_idf(counts.documents, counts.rows)
    weight[list(special)] = 0.0
    by_class = counts_by_class(by_row, multi_hot)
    labels = multi_hot.argmax(axis=1) if classes else np.zeros(0)
    single = (multi_hot.sum(axis=1) == 1).all() and len(np.unique(labels)) > 1
    if reserved and counts.rows > by_row.shape[0] and single:
        teacher = vector_teacher(by_row, labels, classes, vectors, np.exp(weight))
        by_class += taught_counts(unlabelled, teacher, vocab_size, classes)
    by_class[list(special)] = 0.0
    present = np.asarray(by_row.sum(axis=0)).ravel() > 0
    return BagStart(
        vectors=vectors,
        classes=class_weights(by_class)[:, :reserved],
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
