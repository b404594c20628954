"""A split on its way from rows to a dataset: cut, sampled, encoded, and counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .data import SplitFacts
from .encoding import encode
from .labels import in_order
from .options import Split
from .rows import Rows
from .splitting import single_row_classes, stratified_cut, stratified_sample

if TYPE_CHECKING:
    from datasets import Dataset

DEFAULT_SHARE = 0.1


@dataclass
class Part:
    """Rows, their classes as indices, and where they came from in words."""

    rows: Rows
    classes: np.ndarray
    origin: str

    def select(self, indices: np.ndarray, origin: str) -> "Part":
        return Part(self.rows.select(indices), self.classes[indices], origin)


def validation_share(asked: float | str | None, has_file: bool) -> float | None:
    """The share of train to cut off, or None if a file is the validation split."""
    if isinstance(asked, str) or (asked is None and has_file):
        return None
    return DEFAULT_SHARE if asked is None else float(asked)


def cut_description(share: float, seed: int) -> str:
    return f"cut from train (seed {seed}, stratified, {100 * share:g} %)"


def class_names(rows: Rows, column: str) -> list[str]:
    """The classes of the training rows, in order; a single one cannot be learned."""
    names = in_order(rows.labels)
    if len(names) == 1:
        raise UserError(
            f"{rows.file}: all {len(rows.labels):,} rows have the same label {names[0]!r};"
            f" a classifier needs two classes or more (is {column!r} the label column?)"
        )
    return names


def cut_validation(train: Part, names: Sequence[str], share: float, seed: int) -> tuple[Part, Part]:
    """Train without its validation rows, and those."""
    single = single_row_classes(train.classes)
    if single:
        place = int(np.flatnonzero(train.classes == single[0])[0])
        others = f" (and {len(single) - 1:,} more classes of {len(names):,})" if len(single) > 1 else ""
        raise UserError(
            f"{train.rows.where(place)}: the only row of class {names[single[0]]!r}{others}; a validation split"
            " cut from train needs two rows of each class: add rows, or give a file with data.validation"
        )
    rest, cut = stratified_cut(train.classes, share, seed)
    return train.select(rest, train.origin), train.select(cut, cut_description(share, seed))


def sampled(part: Part, wanted: int | None, seed: int, split: Split) -> Part:
    """A stratified sample of the wanted size; all rows if there are no more than that."""
    total, present = len(part.classes), len(np.unique(part.classes))
    if wanted is None or wanted >= total:
        return part
    if split == "train" and wanted < present:
        raise UserError(f"data.train_rows {wanted} is less than one row for each of the {present} classes; raise it")
    origin = f"{part.origin}, a stratified sample of {total:,} rows (seed {seed})"
    return part.select(stratified_sample(part.classes, wanted, seed), origin)


def encode_part(
    part: Part, names: Sequence[str], tokenizer: PreTrainedTokenizerFast, max_length: int
) -> tuple["Dataset", SplitFacts]:
    encoded = encode(tokenizer, part.rows.texts, max_length, part.rows.where)
    counts = np.bincount(part.classes, minlength=len(names)).tolist()
    facts = SplitFacts(
        origin=part.origin,
        rows=len(part.classes),
        classes=dict(zip(names, counts, strict=True)),
        empty=sum(not text.strip() for text in part.rows.texts),
        truncated=encoded.truncated,
        tokens=len(encoded.ids),
        unknown=int((encoded.ids == tokenizer.unk_token_id).sum()) if tokenizer.unk_token else 0,
    )
    return encoded.dataset(part.classes), facts
