"""Random ListOps expressions as defined by the Long Range Arena, generated in batches.

A node at depth d (the root's is 1) is an operator with probability 0.25 while d < 10, else a digit. An operator has 2
to 10 arguments; MED is the median, truncated; SM the sum modulo 10. A digit has length 1, an operator 2 (its
brackets). Trees grow level by level as arrays; only trees of a valid length get symbols and are evaluated.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..core.errors import UserError
from .encoding import offsets_of
from .tokenizers import listops_symbols

MAX_DEPTH, MAX_ARGS, OPERATOR_SHARE = 10, 10, 0.25
TREES = 8192
PATIENCE = 64
SYMBOLS = ["", *listops_symbols("keep")]
FIRST_DIGIT, MIN, MAX, MED, SM, CLOSE = (SYMBOLS.index(symbol) for symbol in ("0", "[MIN", "[MAX", "[MED", "[SM", "]"))


@dataclass
class Expressions:
    """Concatenated token ids, where expression i is `tokens[offsets[i]:offsets[i + 1]]`, and their values."""

    tokens: np.ndarray
    offsets: np.ndarray
    answers: np.ndarray

    def __len__(self) -> int:
        return len(self.answers)

    def expression(self, index: int) -> np.ndarray:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def text(self, index: int) -> str:
        return " ".join(SYMBOLS[token] for token in self.expression(index))

    def span(self, start: int, stop: int) -> "Expressions":
        offsets = self.offsets[start : stop + 1]
        return Expressions(self.tokens[offsets[0] : offsets[-1]], offsets - offsets[0], self.answers[start:stop])


def generate(count: int, min_length: int, max_length: int, seed: int) -> Expressions:
    """`count` distinct expressions with min_length < length < max_length; a larger `count` only appends to them."""
    rng = np.random.RandomState(seed)
    seen: set[bytes] = set()
    parts: list[np.ndarray] = []
    answers: list[int] = []
    idle = 0
    while len(parts) < count:
        batch = _batch(rng, min_length, max_length)
        before = len(parts)
        for index in range(len(batch)):
            digest = blake2b(batch.expression(index), digest_size=16).digest()  # pyright: ignore[reportArgumentType]
            if digest not in seen and len(parts) < count:
                seen.add(digest)
                parts.append(batch.expression(index))
                answers.append(int(batch.answers[index]))
        idle = 0 if len(parts) > before else idle + 1
        if idle == PATIENCE:
            raise UserError(
                f"only {len(parts):,} distinct ListOps expressions longer than {min_length} and shorter than"
                f" {max_length} were found, but {count:,} are needed; widen the lengths or reduce the number of rows"
            )
    lengths = np.fromiter(map(len, parts), dtype=np.int64, count=count)
    tokens = np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)
    return Expressions(tokens, offsets_of(lengths), np.array(answers, dtype=np.uint8))


def _batch(rng: np.random.RandomState, min_length: int, max_length: int) -> Expressions:
    levels = _grow(rng, min_length, max_length)
    nodes = [_symbols(rng, arity) for arity in levels]
    lengths = _lengths(levels)
    values = _values(levels, nodes)
    offsets = offsets_of(lengths[0])
    return Expressions(_serialize(levels, nodes, lengths, offsets), offsets, values[0].astype(np.uint8))


def _grow(rng: np.random.RandomState, min_length: int, max_length: int) -> list[np.ndarray]:
    """Shapes of the trees with a valid length: for each level, the number of arguments per node, 0 for a digit.

    Nodes are ordered by their parents, and roots by their trees.
    """
    owner, levels, owners = np.arange(TREES), [], []
    lengths = np.zeros(TREES, dtype=np.int64)
    for depth in range(1, MAX_DEPTH + 1):
        arity = rng.randint(2, MAX_ARGS + 1, len(owner))
        arity[rng.random_sample(len(owner)) >= (OPERATOR_SHARE if depth < MAX_DEPTH else 0)] = 0
        levels.append(arity)
        owners.append(owner)
        lengths += np.bincount(owner, weights=1 + (arity > 0), minlength=TREES).astype(np.int64)
        owner = np.repeat(owner, arity)
    fits = (lengths > min_length) & (lengths < max_length)
    return [arity[fits[owner]] for arity, owner in zip(levels, owners, strict=True)]


def _symbols(rng: np.random.RandomState, arity: np.ndarray) -> np.ndarray:
    digits = rng.randint(FIRST_DIGIT, FIRST_DIGIT + 10, len(arity))
    return np.where(arity > 0, rng.randint(MIN, SM + 1, len(arity)), digits)


def _lengths(levels: list[np.ndarray]) -> list[np.ndarray]:
    """The number of tokens in each node's subtree, computed from the leaves up."""
    lengths = [np.ones(len(arity), dtype=np.int64) for arity in levels]
    for depth in reversed(range(len(levels) - 1)):
        operator = levels[depth] > 0
        if operator.any():
            lengths[depth][operator] = 2 + np.add.reduceat(lengths[depth + 1], _starts(levels[depth][operator]))
    return lengths


def _values(levels: list[np.ndarray], nodes: list[np.ndarray]) -> list[np.ndarray]:
    """The value of each node, computed from the leaves up."""
    values = [symbols - FIRST_DIGIT for symbols in nodes]
    for depth in reversed(range(len(levels) - 1)):
        operator = levels[depth] > 0
        if not operator.any():
            continue
        arity, names, arguments = levels[depth][operator], nodes[depth][operator], values[depth + 1]
        starts = _starts(arity)
        results = np.add.reduceat(arguments, starts) % 10
        results[names == MIN] = np.minimum.reduceat(arguments, starts)[names == MIN]
        results[names == MAX] = np.maximum.reduceat(arguments, starts)[names == MAX]
        results[names == MED] = _medians(arguments, starts[names == MED], arity[names == MED])
        values[depth][operator] = results
    return values


def _medians(arguments: np.ndarray, starts: np.ndarray, arity: np.ndarray) -> np.ndarray:
    positions = np.arange(MAX_ARGS)
    rows = arguments[np.minimum(starts[:, None] + positions, len(arguments) - 1)]
    rows = np.sort(np.where(positions < arity[:, None], rows, 10), axis=1)
    row = np.arange(len(rows))
    return (rows[row, (arity - 1) // 2] + rows[row, arity // 2]) // 2


def _serialize(
    levels: list[np.ndarray], nodes: list[np.ndarray], lengths: list[np.ndarray], offsets: np.ndarray
) -> np.ndarray:
    """Trees in prefix order; a node's position follows from its parent's and the lengths of earlier siblings."""
    tokens = np.zeros(offsets[-1], dtype=np.uint8)
    position = offsets[:-1]
    for depth, (arity, symbols) in enumerate(zip(levels, nodes, strict=True)):
        tokens[position] = symbols
        operator = arity > 0
        if not operator.any():
            break
        tokens[position[operator] + lengths[depth][operator] - 1] = CLOSE
        below, arity = lengths[depth + 1], arity[operator]
        before = np.cumsum(below) - below
        position = np.repeat(position[operator] + 1 - before[_starts(arity)], arity) + before
    return tokens


def _starts(arity: np.ndarray) -> np.ndarray:
    """The index of each operator's first argument in the level below."""
    return np.cumsum(arity) - arity
