"""Splits, samples and encodes labelled rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .data import SplitFacts
from .encoding import SplitWriter, encode, unknown_count
from .labels import numeric_hint
from .long_texts import encode_windows
from .options import DataOptions, Split
from .rows import Rows
from .splitting import cut_description, cut_share, single_row_classes, stratified_cut, stratified_sample
from .stored import batched, progress
from .targets import Targets

if TYPE_CHECKING:
    from datasets import Dataset

SHARE, MOST_ROWS = 0.1, 10_000


@dataclass
class Part:
    """Rows with their encoded labels, the strata for splits and samples, and their origin."""

    rows: Rows
    values: np.ndarray
    strata: np.ndarray
    origin: str

    def __len__(self) -> int:
        return len(self.values)

    def select(self, indices: np.ndarray, origin: str) -> "Part":
        return Part(self.rows.select(indices), self.values[indices], self.strata[indices], origin)


def described(options: DataOptions) -> str:
    return cut_description(options, SHARE, MOST_ROWS, "stratified, ")


def cut_validation(names: Sequence[str], options: DataOptions, train: Part) -> tuple[Part, Part]:
    """Split train into train and validation."""
    single = single_row_classes(train.strata)
    if single:
        position = int(np.flatnonzero(train.strata == single[0])[0])
        others = f" (and {len(single) - 1:,} more classes of {len(names):,})" if len(single) > 1 else ""
        what = f"the only row of class {names[single[0]]!r}{others}" if len(names) > 1 else "the only row"
        hint = numeric_hint(names)
        raise UserError(
            f"{train.rows.where(position)}: {what}; a validation split"
            " cut from train needs two rows of each class: add rows, or give a file with data.validation"
            f"{hint and f' ({hint})'}"
        )
    share = cut_share(options, len(train.strata), SHARE, MOST_ROWS)
    rest, cut = stratified_cut(train.strata, share, options.seed)
    return train.select(rest, train.origin), train.select(cut, described(options))


def sampled(seed: int, part: Part, wanted: int, split: Split) -> Part:
    """A stratified sample."""
    present = len(np.unique(part.strata))
    if split == "train" and wanted < present:
        raise UserError(f"data.train_rows {wanted} is less than one row for each of the {present} classes; increase it")
    origin = f"{part.origin}, a stratified sample of {len(part):,} rows (seed {seed})"
    return part.select(stratified_sample(part.strata, wanted, seed), origin)


def encode_part(
    part: Part,
    targets: Targets,
    names: Sequence[str],
    tokenizer: PreTrainedTokenizerFast,
    max_length: int,
    windows: bool = False,
) -> tuple["Dataset", SplitFacts]:
    """Encode the rows; with `windows`, a text longer than `max_length` becomes several rows."""
    facts = SplitFacts(part.origin, len(part.values), **targets.facts(part.values, names))
    table, start = SplitWriter(), 0
    with progress(f"tokenizing {part.origin}", facts.rows) as advance:
        for texts in batched(part.rows.texts):
            owners, end = None, start + len(texts)
            where = partial(_where, part.rows, start)
            if windows:
                encoded, owners = encode_windows(tokenizer, texts, max_length, where)
                facts.windows += len(owners)
            else:
                encoded = encode(tokenizer, texts, max_length, where)
            table.add_rows(encoded, part.values[start:end], owners, texts=texts, start=start)
            facts.empty += sum(not text.strip() for text in texts)
            facts.truncated += encoded.truncated
            facts.cut_tokens += encoded.cut
            facts.tokens += len(encoded.ids)
            facts.unknown += unknown_count(tokenizer, encoded.ids)
            start = end
            advance(len(texts))
    return table.split(), facts


def _where(rows: Rows, start: int, index: int) -> str:
    return rows.where(start + index)
