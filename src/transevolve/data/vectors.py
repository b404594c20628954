"""Token vectors from co-occurrence counts: positive PMI and truncated SVD.

    PPMI[w, c] = max(0, log(P(w, c) / (P(w) P'(c)))),   P'(c) proportional to count(c)^0.75

The vectors are the left singular vectors of PPMI times a power of its singular values, each of norm 1 (Levy, Goldberg
and Dagan, 2015). Texts are read in chunks; the matrix of counts is sparse and limited in size.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, vstack
from scipy.sparse.linalg import svds

Sparse = Any  # SciPy has no types for its sparse matrices
WINDOW = 10
CHUNK_TOKENS = 2**19
BLOCK_ROWS = 1024
MOST_PAIRS = 30_000_000
CONTEXT_POWER = 0.75
SINGULAR_POWER = 0.5


@dataclass
class Counts:
    """Co-occurrences of pieces, occurrences of each piece, and the number of documents that contain it."""

    pairs: Sparse
    tokens: np.ndarray
    documents: np.ndarray
    rows: int = 0

    @classmethod
    def empty(cls, vocab_size: int) -> "Counts":
        shape = (vocab_size, vocab_size)
        zeros = np.zeros(vocab_size, dtype=np.int64)
        return cls(csr_matrix(shape, dtype=np.float32), zeros, zeros.copy())


@dataclass
class Counter:
    """Counts pieces within `window` of each other, each pair weighted by 1 / distance, both ways.

    `ignore` contains ids that are not text, such as padding; they do not count towards distances. `most_pairs` limits
    memory to about 20 bytes per pair: above it, the rarest pairs are dropped. `progress` is called with the number of
    rows read so far.
    """

    vocab_size: int
    ignore: Collection[int] = ()
    window: int = WINDOW
    most_pairs: int = MOST_PAIRS
    progress: Callable[[int], None] | None = None
    counts: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counts.empty(self.vocab_size)
        self._text = np.ones(self.vocab_size, dtype=bool)
        self._text[list(self.ignore)] = False

    def add(self, documents: Iterable[np.ndarray]) -> "Counter":
        """Count documents, each an array of ids; may be called repeatedly."""
        chunk: list[np.ndarray] = []
        size = 0
        for ids in documents:
            kept = np.asarray(ids, dtype=np.int64)
            kept = kept[self._text[kept]]
            chunk.append(kept)
            size += len(kept)
            if size >= CHUNK_TOKENS:
                self._count(chunk)
                chunk, size = [], 0
        if chunk:
            self._count(chunk)
        return self

    def _count(self, chunk: list[np.ndarray]) -> None:
        ids = np.concatenate(chunk)
        owner = np.repeat(np.arange(len(chunk)), [len(document) for document in chunk])
        counts, shape = self.counts, (self.vocab_size, self.vocab_size)
        counts.tokens += np.bincount(ids, minlength=self.vocab_size)
        present = np.unique(owner * self.vocab_size + ids) % self.vocab_size
        counts.documents += np.bincount(present, minlength=self.vocab_size)
        counts.rows += len(chunk)
        left, right, weight = [], [], []
        for distance in range(1, min(self.window, len(ids) - 1) + 1):
            near = owner[distance:] == owner[:-distance]
            left.append(ids[:-distance][near].astype(np.int32))
            right.append(ids[distance:][near].astype(np.int32))
            weight.append(np.full(int(near.sum()), 1 / distance, dtype=np.float32))
        if left:
            parts = (np.concatenate(weight), (np.concatenate(left), np.concatenate(right)))
            one_way = coo_matrix(parts, shape=shape).tocsr()
            counts.pairs = _pruned(counts.pairs + one_way + one_way.T.tocsr(), self.most_pairs)
        if self.progress is not None:
            self.progress(counts.rows)


def _pruned(pairs: Sparse, most: int) -> Sparse:
    """Drop the rarest pairs if there are more than `most`, and keep at most three quarters of that."""
    if pairs.nnz <= most:
        return pairs
    keep = max(1, 3 * most // 4)
    threshold = np.partition(pairs.data, pairs.nnz - keep)[pairs.nnz - keep]
    pairs.data[pairs.data <= threshold] = 0
    pairs.eliminate_zeros()
    return pairs


def positive_pmi(pairs: Sparse, context_power: float = CONTEXT_POWER) -> Sparse:
    """Positive pointwise mutual information, with contexts smoothed by a power of their counts."""
    rows = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    contexts = np.asarray(pairs.sum(axis=0), dtype=np.float64).ravel() ** context_power
    total, blocks = contexts.sum(), []
    for first in range(0, len(rows), BLOCK_ROWS):
        entries = pairs[first : first + BLOCK_ROWS].tocoo()
        joint = entries.data.astype(np.float64) * total
        information = np.log(joint / (rows[first + entries.row] * contexts[entries.col]))
        kept = information > 0
        content = (information[kept].astype(np.float32), (entries.row[kept], entries.col[kept]))
        blocks.append(coo_matrix(content, shape=entries.shape).tocsr())
    return vstack(blocks, format="csr")


def singular_vectors(matrix: Sparse, width: int, power: float = SINGULAR_POWER, seed: int = 0) -> np.ndarray:
    """Rows of U S^power, normalized; zero rows stay zero, and columns beyond the rank are zero.

    The largest entry of each column is positive, so that the result is deterministic.
    """
    rank = min(width, min(matrix.shape) - 1)
    vectors = np.zeros((matrix.shape[0], width), dtype=np.float32)
    if rank < 1 or matrix.nnz == 0:
        return vectors
    start = np.random.RandomState(seed).standard_normal(min(matrix.shape)).astype(matrix.dtype)
    found: Any = svds(matrix, k=rank, v0=start, return_singular_vectors="u")  # pyright: ignore[reportArgumentType]
    u, s, _ = found
    order = np.argsort(-s, kind="stable")
    u, s = u[:, order], np.maximum(s[order], 0.0)
    u = u * np.sign(u[np.abs(u).argmax(axis=0), np.arange(rank)])
    vectors[:, :rank] = u * np.where(s > s[0] * 1e-6, s, 0.0) ** power
    present = np.diff(matrix.indptr) > 0
    vectors[~present] = 0.0
    return unit_rows(vectors)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Each row divided by its norm; zero rows stay zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(norms, np.finfo(np.float32).tiny)).astype(np.float32)


def cooccurrence_vectors(counts: Counts, width: int, seed: int = 0) -> np.ndarray:
    """Normalized vectors of all pieces that occur in the counted texts; zero for the others."""
    return singular_vectors(positive_pmi(counts.pairs), width, seed=seed)


def log_idf(documents: np.ndarray, rows: int, least: float = 0.05) -> np.ndarray:
    """log(max(log((1 + rows) / (1 + documents)), least)), so that pooling by exp(w) weights tokens by idf."""
    return np.log(np.maximum(np.log((1 + rows) / (1 + documents)), least)).astype(np.float32)
