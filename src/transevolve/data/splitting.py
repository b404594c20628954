"""Which splits are read, and seeded, stratified cuts and samples of them."""

from collections.abc import Callable, Collection, Mapping, Sized
from typing import TypeVar

import numpy as np

from .options import SPLITS, DataOptions, Split


def is_cut(options: DataOptions, names: Collection[Split]) -> bool:
    """Whether validation is cut from train; `names` are the splits of the source."""
    if options.validation is None:
        return "validation" not in names
    return not isinstance(options.validation, str) and options.validation != 0


def needed_splits(options: DataOptions, names: Collection[Split], splits: Collection[Split], learn: bool) -> set[Split]:
    """The splits to read: those requested, and train if they are cut from it or if there is something to `learn`."""
    cut = is_cut(options, names)
    needed: set[Split] = set(splits) & set(names)
    if learn or (cut and "validation" in splits):
        needed.add("train")
    if cut or options.validation == 0:
        needed.discard("validation")
    return needed


def cut_share(options: DataOptions, rows: int, share: float, most: int) -> float:
    """The fraction of train to cut: that of the options, or `share` and at most `most` rows."""
    return min(share, most / rows) if options.validation is None else float(options.validation)


def cut_description(options: DataOptions, share: float, most: int, how: str = "") -> str:
    asked = options.validation
    size = f"{100 * share:g} %, at most {most:,}" if asked is None else f"{100 * float(asked):g} %"
    return f"cut from train (seed {options.seed}, {how}{size})"


def selection(options: DataOptions, names: Mapping[Split, str], describe: Callable[[DataOptions], str]) -> str:
    """What selects the model, for the report; `describe` describes a cut."""
    if is_cut(options, {*names}):
        return f"validation, {describe(options)}"
    return "no split: data.validation is 0" if options.validation == 0 else f"validation, {names['validation']}"


P = TypeVar("P", bound=Sized)


def cut_and_sampled(
    parts: dict[Split, P],
    options: DataOptions,
    cut: Callable[[P], tuple[P, P]] | None,
    sample: Callable[[P, int, Split], P],
) -> dict[Split, P]:
    """The parts with validation cut from train, if there is a `cut`, and at most the wanted rows of each."""
    limits = {split: options.rows_wanted(split) for split in SPLITS}
    if cut is not None and "train" in parts:
        train, validation = cut(parts["train"])
        parts = {**parts, "train": train, "validation": validation}
        if limits["validation"] is None:
            limits["validation"] = cut_rows(limits["train"], len(train), len(validation))
    found = {}
    for split, part in parts.items():
        wanted = limits[split]
        found[split] = part if wanted is None or wanted >= len(part) else sample(part, wanted, split)
    return found


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
