"""One tag per word: the label of its first token. Other tokens have no label."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError, nearest, quoted
from .batching import IGNORED
from .conll import TaggedSource, tagged_source
from .data import SplitFacts, TextData
from .encoding import Encoded, encode_pieces, no_room, unknown_count
from .labels import sorted_names
from .options import DataOptions, Split
from .parts import Part
from .rows import Rows
from .targets import Targets
from .text import USES as TEXT_USES
from .text import TextTask

if TYPE_CHECKING:
    from datasets import Dataset

OUTSIDE = "O"
USES = TEXT_USES - {"hub", "hub_config", "long", "unlabelled"}


class Tags:
    """The targets of token classification: for each row, the tag index of each word."""

    def learn(self, rows: Rows, column: Any) -> list[str]:
        names = sorted_names(tag for label in rows.labels for tag in label.split())
        if len(names) == 1:
            raise UserError(f"{rows.file}: every word has the tag {names[0]!r}; there is nothing to learn")
        return sorted(names, key=lambda name: name != OUTSIDE)

    def values(self, rows: Rows, names: Sequence[str], known_from: str) -> np.ndarray:
        index = {name: position for position, name in enumerate(names)}
        values = np.empty(len(rows.labels), dtype=object)
        for row, label in enumerate(rows.labels):
            unknown = [tag for tag in label.split() if tag not in index]
            if unknown:
                raise UserError(
                    f"{rows.where(row)}: the tag {unknown[0]!r} is not among those of {known_from}: {quoted(names)}"
                    f"{nearest(unknown[0], names)}"
                )
            values[row] = np.array([index[tag] for tag in label.split()], dtype=np.int64)
        return values

    def strata(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(len(values), dtype=np.int64)

    def facts(self, values: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
        counts = np.bincount(np.concatenate(list(values)), minlength=len(names)).tolist()
        return {"classes": dict(zip(names, counts, strict=True))}


@dataclass(frozen=True)
class TaggedTask(TextTask):
    max_length: int = 512
    targets: Targets = field(default_factory=Tags)

    def _source(self, options: DataOptions) -> TaggedSource:  # pyright: ignore[reportIncompatibleMethodOverride]
        return tagged_source(options)

    def load(
        self,
        options: DataOptions,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        """Load in memory; tagged corpora are small."""
        chosen = self._chosen(options, tokenizer)
        source: Any = self._source(options)
        return self._load(source, options, chosen, tokenizer, labels, splits)

    def encode(
        self, part: Part, names: Sequence[str], tokenizer: PreTrainedTokenizerFast, max_length: int, windows: bool
    ) -> tuple["Dataset", SplitFacts]:
        encoded, positions = encode_words(tokenizer, part.rows.texts, max_length, part.rows.where)
        labels = np.full(len(encoded.ids), IGNORED, dtype=np.int64)
        for row, (start, tags) in enumerate(zip(encoded.offsets, part.values, strict=False)):
            tagged = positions[row] >= 0
            labels[start + positions[row][tagged]] = tags[tagged]
        facts = SplitFacts(
            origin=part.origin,
            rows=len(part.values),
            truncated=encoded.truncated,
            cut_tokens=encoded.cut,
            tokens=len(encoded.ids),
            unknown=unknown_count(tokenizer, encoded.ids),
            **self.targets.facts(part.values, names),
        )
        return encoded.dataset(labels, per_token=True), facts


def encode_words(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], max_length: int, where: Callable[[int], str]
) -> tuple[Encoded, list[np.ndarray]]:
    """Tokenize texts whose words are separated by single spaces; also returns the position of each first token.

    The position is -1 for words that were truncated or that the tokenizer drops.
    """
    if max_length <= tokenizer.num_special_tokens_to_add():
        raise no_room(max_length)
    positions: list[np.ndarray] = []
    encoded = encode_pieces(
        tokenizer, texts, max_length, where, lambda text, encoding: positions.append(first_tokens(text, encoding))
    )
    return encoded, positions


def first_tokens(text: str, encoding: Any) -> np.ndarray:
    """The first token of each word. A token belongs to the word of its last character; it may begin with a space."""
    words = text.split(" ")
    starts = np.concatenate([[0], np.cumsum([len(word) + 1 for word in words])[:-1]])
    positions = np.full(len(words), -1, dtype=np.int64)
    for token, ((begin, end), special) in enumerate(zip(encoding.offsets, encoding.special_tokens_mask, strict=True)):
        if special or end <= begin or text[end - 1] == " ":
            continue
        word = int(np.searchsorted(starts, end - 1, side="right")) - 1
        if positions[word] < 0:
            positions[word] = token
    return positions
