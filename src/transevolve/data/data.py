"""What a task hands to training: tokenised splits, class names, a tokenizer, and the facts about them."""

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
    """One split, counted.

    Args:
        origin: Where the rows came from.
        rows: How many there are.
        classes: Rows of each class, where labels are classes.
        numbers: Least, mean and largest label, where labels are numbers.
        empty: Rows without any text; they are kept, and hold only the tokenizer's special tokens.
        truncated: Rows that were longer than the maximum length, and were cut.
        tokens: Tokens in all rows, after cutting.
        unknown: Those of them that the vocabulary does not hold.
        cut_tokens: Tokens that were cut off.
        windows: Windows that the rows are read in, where longer rows are not cut.
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
        """The share of all tokens that was cut off."""
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
    """One split of sentences and their translations, counted.

    Args:
        origin: Where the pairs came from.
        rows: How many pairs there are, without those skipped.
        skipped_empty: Pairs of train that were left out because one side is empty.
        skipped_long: Pairs of train that were left out because one side is longer than the maximum length.
        empty: Pairs of another split with an empty side; they are kept.
        truncated: Sources of another split that were longer than the maximum length, and were cut.
        truncated_targets: Targets likewise; they are cut for the loss only, never for a score.
        tokens: Tokens of both sides, after cutting.
        target_tokens: Those of the targets.
        unknown: Those of both sides that the vocabulary does not hold.
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
    """Everything a reader of a result needs to know about its data.

    Args:
        columns: The columns that were read, by the setting that would name them.
        settings: What the task used for settings of the data that may be left out.
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
        """The report for people, before training."""
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

    A split is None where there is none, or where it was not asked for. `labels` names the model's outputs. In
    classification the column `labels` is an index into these names. In translation it is the target's tokens, as
    `input_ids` is the source's, each with its end token; `length` is that of the longer side; validation and test also
    have the original texts, `source` and `target`; and the outputs have no names. `originals` has the texts of labelled
    rows as they were read, by split; `folder` is where prepared data are, and
    `tokenizer_sha256` the sum of their tokenizer.
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
        """The text of each row of a split as it was read; None if its rows are generated, or are pairs."""
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
