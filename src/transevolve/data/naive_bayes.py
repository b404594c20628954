"""What single tokens say about the class: the weights of complement naive Bayes (Rennie et al., 2003)."""

import numpy as np
from scipy.sparse import csr_matrix

SMOOTHING = 1.0


def token_counts(ids: np.ndarray, offsets: np.ndarray, vocab_size: int) -> csr_matrix:
    """(rows, vocab): how often each token stands in each text, whose ids are `ids[offsets[i]:offsets[i + 1]]`."""
    ones = np.ones(len(ids), dtype=np.float32)
    counts = csr_matrix((ones, ids.astype(np.int64), offsets.astype(np.int64)), shape=(len(offsets) - 1, vocab_size))
    counts.sum_duplicates()
    return counts


def class_weights(counts: csr_matrix, labels: np.ndarray, classes: int, smoothing: float = SMOOTHING) -> np.ndarray:
    """(vocab, classes): -log P(token | all other classes), less its mean over classes; zero for unseen tokens."""
    membership = np.eye(classes, dtype=np.float64)[labels]
    by_class = np.asarray(counts.T @ membership)
    total = by_class.sum(axis=1, keepdims=True)
    complement = total - by_class + smoothing
    weights = -np.log(complement / complement.sum(axis=0))
    weights -= weights.mean(axis=1, keepdims=True)
    return np.where(total > 0, weights, 0.0).astype(np.float32)
