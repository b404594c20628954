"""Seeded, stratified splits and samples."""

import numpy as np


def single_row_classes(classes: np.ndarray) -> list[int]:
    """Classes with only one row, which cannot be in both parts of a split."""
    present, counts = np.unique(classes, return_counts=True)
    return present[counts == 1].tolist()


def stratified_cut(classes: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(rest, cut): sorted indices; `share` of every class is in the cut, at least one row and never all."""
    counts = np.unique(classes, return_counts=True)[1]
    take = np.clip(np.rint(counts * share).astype(int), 1, counts - 1)
    return _drawn(classes, take, seed)


def cut_rows(train_rows: int | None, train: int, cut: int) -> int | None:
    """The number of validation rows to keep, in proportion to a sample of train; None means all."""
    return None if train_rows is None or train_rows >= train else max(1, round(cut * train_rows / train))


def stratified_sample(classes: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Sorted indices of exactly `rows` rows, with proportional classes (largest remainders)."""
    if rows >= len(classes):
        return np.arange(len(classes))
    counts = np.unique(classes, return_counts=True)[1]
    exact = counts * (rows / len(classes))
    take = np.floor(exact).astype(int)
    by_remainder = np.argsort(take - exact, kind="stable")
    take[by_remainder[: rows - take.sum()]] += 1
    return _drawn(classes, take, seed)[1]


def _drawn(classes: np.ndarray, take: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(rest, drawn): `take[i]` rows of the i-th class. RandomState is stable between numpy versions."""
    rng = np.random.RandomState(seed)
    by_class = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.unique(classes, return_counts=True)[1])
    chosen = np.zeros(len(classes), dtype=bool)
    for members, count in zip(np.split(by_class, ends[:-1]), take, strict=True):
        chosen[rng.permutation(members)[:count]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)
