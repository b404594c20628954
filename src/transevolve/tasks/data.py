"""What a task hands to training: tokenised splits, class names, a tokenizer, and the facts about them."""

from dataclasses import asdict, dataclass, field
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from .options import Split


@dataclass
class SplitFacts:
    """One split, counted.

    Args:
        origin: Where the rows came from.
        rows: How many there are.
        classes: Rows of each class.
        empty: Rows without any text; they are kept, and hold only the tokenizer's special tokens.
        truncated: Rows that were longer than the maximum length, and were cut.
        tokens: Tokens in all rows, after cutting.
        unknown: Those of them that the vocabulary does not hold.
    """

    origin: str
    rows: int
    classes: dict[str, int]
    empty: int
    truncated: int
    tokens: int
    unknown: int


@dataclass
class DataReport:
    """Everything a reader of a result needs to know about its data."""

    task: str
    selection: str
    tokenizer: str
    vocab_size: int
    max_length: int
    seed: int
    columns: dict[str, str] = field(default_factory=dict)
    splits: dict[str, SplitFacts] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """The report for people."""
        head = [f"task {self.task}; tokenizer: {self.tokenizer}; at most {self.max_length:,} tokens per text"]
        if self.columns:
            head.append("columns: " + ", ".join(f"{role} = {name!r}" for role, name in self.columns.items()))
        return head + [self._split_line(name) for name in self.splits] + [f"model selected on: {self.selection}"]

    def _split_line(self, name: str) -> str:
        facts = self.splits[name]
        parts = [f"{name}: {facts.rows:,} rows, {facts.origin}", _class_counts(facts.classes)]
        if facts.truncated:
            share = 100 * facts.truncated / facts.rows
            parts.append(f"{facts.truncated:,} ({share:.1f} %) were too long and cut")
        if facts.empty:
            parts.append(f"{facts.empty:,} without text, kept")
        if facts.unknown:
            parts.append(f"{facts.unknown:,} of {facts.tokens:,} tokens unknown")
        return "; ".join(parts)


@dataclass
class TextData:
    """Splits with the columns `input_ids`, `labels` (an index into the class names below) and `length`.

    A split is None where there is none, or where it was not asked for.
    """

    train: Dataset | None
    validation: Dataset | None
    test: Dataset | None
    labels: list[str]
    tokenizer: PreTrainedTokenizerFast
    report: DataReport

    def split(self, name: Split) -> Dataset | None:
        return getattr(self, name)


def _class_counts(classes: dict[str, int], limit: int = 10) -> str:
    shown = ", ".join(f"{label}: {count:,}" for label, count in list(classes.items())[:limit])
    rest = len(classes) - limit
    return shown + (f" and {rest} more classes" if rest > 0 else "")
