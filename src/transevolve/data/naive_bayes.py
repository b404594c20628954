"""Class weights of single tokens: complement naive Bayes (Rennie et al., 2003).

Unlabelled texts are labelled by a teacher, a logistic regression on pooled vectors, which also knows words that no
labelled text contains.
"""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.sparse import csr_matrix

from ..core.windows import windows
from .vectors import Sparse

SMOOTHING = 1.0
TEACHER_C = 0.01
CHUNK_ROWS = 4096

Teacher = Callable[[Sparse], np.ndarray]


def token_counts(ids: np.ndarray, offsets: np.ndarray, vocab_size: int) -> Sparse:
    """(rows, vocab): the count of each token in each text, whose ids are `ids[offsets[i]:offsets[i + 1]]`."""
    ones = np.ones(len(ids), dtype=np.float32)
    counts = csr_matrix((ones, ids.astype(np.int64), offsets.astype(np.int64)), shape=(len(offsets) - 1, vocab_size))
    counts.sum_duplicates()
    return counts


def counts_by_class(counts: Sparse, multi_hot: np.ndarray) -> np.ndarray:
    """(vocab, classes): the count of each token in the texts of each class; `multi_hot` is (rows, classes)."""
    return np.asarray(counts.T @ multi_hot, dtype=np.float64)


def class_weights(by_class: np.ndarray, smoothing: float = SMOOTHING) -> np.ndarray:
    """(vocab, classes): -log P(token | all other classes), less its mean over classes; zero for unseen tokens."""
    total = by_class.sum(axis=1, keepdims=True)
    complement = total - by_class + smoothing
    weights = -np.log(complement / complement.sum(axis=0))
    weights -= weights.mean(axis=1, keepdims=True)
    return np.where(total > 0, weights, 0.0).astype(np.float32)


def pooled(counts: Sparse, vectors: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The weighted mean of the vectors of each text's tokens; zero for a text without any."""
    total = np.asarray(counts @ weight).ravel()
    return np.asarray(counts @ (vectors * weight[:, None])) / np.maximum(total, np.finfo(np.float32).tiny)[:, None]


def vector_teacher(
    counts: Sparse, labels: np.ndarray, classes: int, vectors: np.ndarray, weight: np.ndarray
) -> Teacher:
    """Returns a function from texts to class probabilities: a logistic regression on pooled vectors."""
    from sklearn.linear_model import LogisticRegression

    features = pooled(counts, vectors, weight)
    centre, scale = features.mean(0), np.maximum(features.std(0), 1e-9)
    model = LogisticRegression(C=TEACHER_C, max_iter=500).fit((features - centre) / scale, labels)

    def probabilities(rows: Sparse) -> np.ndarray:
        found = np.zeros((rows.shape[0], classes))
        found[:, model.classes_] = model.predict_proba((pooled(rows, vectors, weight) - centre) / scale)
        return found

    return probabilities


def taught_counts(texts: Iterable[np.ndarray], teacher: Teacher, vocab_size: int, classes: int) -> np.ndarray:
    """`counts_by_class` of unlabelled texts, each counted for its most probable class according to the teacher."""
    by_class = np.zeros((vocab_size, classes))
    for chunk in windows(texts, CHUNK_ROWS):
        offsets = np.cumsum([0, *(len(text) for text in chunk)])
        counts = token_counts(np.concatenate(chunk), offsets, vocab_size)
        by_class += counts_by_class(counts, np.eye(classes)[teacher(counts).argmax(1)])
    return by_class
