"""The output of a task: tokenized splits, class names, the tokenizer, and a report about them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerFast

from .options import Split

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class SplitFacts:
    """Statistics of one split.

    Args:
        origin: Where the rows come from.
        rows: Number of rows.
        classes: Rows per class, if labels are classes.
        numbers: Minimum, mean and maximum label, if labels are numbers.
        empty: Rows without text. They are kept and contain only the tokenizer's special tokens.
        truncated: Rows longer than the maximum length, which were truncated.
        tokens: Tokens in all rows, after truncation.
        unknown: Tokens that are not in the vocabulary.
        cut_tokens: Tokens removed by truncation.
        windows: Number of windows, if long rows are split instead of truncated.
    """

    origin: str
    rows: int
    classes: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    empty: int = 0
    truncated: int = 0
    tokens: int = 0
    unknown: int = 0
    cut_tokens: int = 0
    windows: int = 0

    @property
    def lost(self) -> float:
        """The fraction of all tokens that truncation removed."""
        return self.cut_tokens / max(self.tokens + self.cut_tokens, 1)

    def line(self) -> str:
        parts = [f"{self.rows:,} rows, {self.origin}"]
        if self.windows:
            parts.append(f"{self.windows:,} windows")
        if self.classes:
            parts.append(_class_counts(self.classes))
        if self.numbers:
            parts.append(", ".join(f"{name} {value:g}" for name, value in self.numbers.items()))
        if self.truncated:
            parts.append(
                f"{_share(self.truncated, self.rows)} were too long and cut ({100 * self.lost:.1f} % of tokens)"
            )
        if self.empty:
            parts.append(f"{self.empty:,} without text, kept")
        return "; ".join([*parts, *_unknown(self)])


@dataclass
class PairFacts:
    """Statistics of one split of sentence pairs.

    Args:
        origin: Where the pairs come from.
        rows: Number of pairs, without the skipped ones.
        skipped_empty: Training pairs skipped because one side is empty.
        skipped_long: Training pairs skipped because one side is longer than the maximum length.
        empty: Pairs of other splits with an empty side. They are kept.
        truncated: Sources of other splits that were truncated to the maximum length.
        truncated_targets: Truncated targets of other splits. They are truncated for the loss only, not for scores.
        tokens: Tokens of both sides, after truncation.
        target_tokens: Tokens of the targets.
        unknown: Tokens of both sides that are not in the vocabulary.
    """

    origin: str
    rows: int
    skipped_empty: int = 0
    skipped_long: int = 0
    empty: int = 0
    truncated: int = 0
    truncated_targets: int = 0
    tokens: int = 0
    target_tokens: int = 0
    unknown: int = 0

    def line(self) -> str:
        parts = [f"{self.rows:,} pairs, {self.origin}", f"{self.tokens:,} tokens"]
        if self.skipped_long:
            parts.append(f"{_share(self.skipped_long, self.rows + self.skipped_long)} were too long and skipped")
        if self.skipped_empty:
            parts.append(f"{self.skipped_empty:,} with an empty side skipped")
        if self.truncated:
            parts.append(f"{_share(self.truncated, self.rows)} sources were too long and cut")
        if self.truncated_targets:
            parts.append(f"{_share(self.truncated_targets, self.rows)} targets were too long and cut for the loss")
        if self.empty:
            parts.append(f"{self.empty:,} with an empty side, kept")
        return "; ".join([*parts, *_unknown(self)])


@dataclass
class DataReport:
    """A description of the data, for the log and the results.

    Args:
        columns: The columns that were read, by the name of their setting.
        settings: The values that the task used for optional data settings.
    """

    task: str
    selection: str
    tokenizer: str
    vocab_size: int
    max_length: int
    seed: int
    validation_cut: bool = False
    columns: dict[str, str | list[str]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=dict)
    splits: dict[str, SplitFacts | PairFacts] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """The report as text, printed before training."""
        head = [f"task {self.task}; tokenizer: {self.tokenizer}; at most {self.max_length:,} tokens per text"]
        if self.columns:
            head.append("columns: " + ", ".join(f"{role} = {name!r}" for role, name in self.columns.items()))
        if self.languages:
            head.append("languages: " + ", ".join(f"{role} = {name!r}" for role, name in self.languages.items()))
        return [*head, *self.split_lines(), f"model selected on: {self.selection}"]

    def split_lines(self) -> list[str]:
        return [f"{name}: {facts.line()}" for name, facts in self.splits.items()]


@dataclass
class TextData:
    """Splits with the columns `input_ids`, `labels` and `length`.

    In classification, the column `labels` is an index into the list `labels`. In translation, the columns `input_ids`
    and `labels` are the tokens of source and target, each with an end token, `length` is the longer of the two, and
    validation and test have the original texts in the columns `source` and `target`.

    Args:
        train: The training rows. A split that does not exist or was not requested is None.
        labels: Names of the model's outputs. Empty in translation.
        originals: The texts of labelled rows before tokenization, by split.
        folder: The folder of the prepared data.
        tokenizer_sha256: The checksum of the tokenizer in that folder.
    """

    train: "Dataset | None"
    validation: "Dataset | None"
    test: "Dataset | None"
    labels: list[str]
    tokenizer: PreTrainedTokenizerFast
    report: DataReport
    originals: Mapping[Split, Sequence[str]] = field(default_factory=dict)
    folder: Path | None = None
    tokenizer_sha256: str | None = None

    def texts(self, split: Split) -> Sequence[str] | None:
        """The original text of each row of a split; None if rows are generated or are sentence pairs."""
        return self.originals.get(split)

    def split(self, name: Split) -> "Dataset | None":
        return getattr(self, name)


def _share(count: int, rows: int) -> str:
    return f"{count:,} ({100 * count / rows:.1f} %)"


def _unknown(facts: SplitFacts | PairFacts) -> list[str]:
    return [f"{facts.unknown:,} of {facts.tokens:,} tokens unknown"] if facts.unknown else []


def _class_counts(classes: dict[str, int], limit: int = 10) -> str:
    shown = ", ".join(f"{label}: {count:,}" for label, count in list(classes.items())[:limit])
    rest = len(classes) - limit
    return shown + (f" and {rest} more classes" if rest > 0 else "")
