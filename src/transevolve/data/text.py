"""Text classification: AG News, IMDB in word pieces or characters, and the user's own files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .data import DataReport, TextData
from .files import file_source
from .options import SPLITS, SUBWORDS, DataOptions, Split, check_tokenizer
from .parts import Part, class_names, cut_description, cut_validation, encode_part, sampled, validation_share
from .rows import Rows, class_indices
from .sources import Source
from .tokenizers import DEFAULT_VOCAB_SIZE, build_tokenizer

BERT_VOCAB_SIZE = 30522
LEARNED = ("wordpiece", *SUBWORDS)
USES = frozenset(
    {"path", "hub", "hub_config", "text", "label", "validation", "test"}
    | {"tokenizer", "vocab", "vocab_size", "max_length", "train_rows", "validation_rows", "test_rows"}
)


@dataclass(frozen=True)
class TextTask:
    """A task's defaults, and how it loads.

    Args:
        tokenizer: The tokenizer, if the user names none.
        max_length: Tokens per text, likewise.
        vocab_size: Size of a learned vocabulary of pieces, likewise.
        labels: Class names, each with the other names that files have for it; empty if the training rows decide.
        hub: Where the data can be downloaded from.
    """

    tokenizer: str = "wordpiece"
    max_length: int = 512
    vocab_size: int = DEFAULT_VOCAB_SIZE
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hub: str | None = None

    def load(
        self,
        options: DataOptions,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        kind = options.tokenizer or self.tokenizer
        check_tokenizer(kind, options)
        source = self._source(options)
        share = validation_share(options.validation, "validation" in source.names)
        parts, names = self._parts(source, options, share, labels, splits, learn=tokenizer is None)
        max_length = options.max_length or (tokenizer.model_max_length if tokenizer else self.max_length)
        described = "as saved with the model"
        if tokenizer is None:
            size = options.vocab_size or (self.vocab_size if kind in LEARNED else None)
            tokenizer, described = build_tokenizer(kind, parts["train"].rows.texts, max_length, options.vocab, size)
        report = DataReport(
            task=options.task,
            selection=_selection(source, share, options.seed),
            tokenizer=f"{described}, {len(tokenizer):,} tokens",
            vocab_size=len(tokenizer),
            max_length=max_length,
            seed=options.seed,
            columns=source.columns,
        )
        encoded = {}
        for split in SPLITS:
            part = parts.pop(split, None)
            if part is not None and split in splits:
                encoded[split], report.splits[split] = encode_part(part, names, tokenizer, max_length)
        train, validation, test = (encoded.get(split) for split in SPLITS)
        return TextData(train, validation, test, names, tokenizer, report)

    def _source(self, options: DataOptions) -> Source:
        if options.path is not None and options.hub is not None:
            raise UserError("data.path and data.hub are both given: remove one")
        if options.hub is not None:
            from .hub import hub_source

            return hub_source(options)
        if options.path is not None:
            return file_source(options)
        download = f"; data.hub {self.hub} downloads it" if self.hub else ""
        raise UserError(f"the task {options.task!r} needs data.path, a file or a folder with train and test{download}")

    def _parts(
        self,
        source: Source,
        options: DataOptions,
        share: float | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
        learn: bool,
    ) -> tuple[dict[Split, Part], list[str]]:
        """The splits that are asked for, those needed to make them, and the class names."""
        needed: set[Split] = set(splits) & set(source.names)
        if learn or labels is None or (share and "validation" in splits):
            needed.add("train")
        if share is not None:
            needed.discard("validation")
        rows: dict[Split, Rows] = {split: self._renamed(source.read(split)) for split in SPLITS if split in needed}
        if labels is not None:
            names, known = list(labels), "the model"
        else:
            found = class_names(rows["train"], source.columns["label"])
            names, known = (list(self.labels), f"the task {options.task!r}") if self.labels else (found, "train")
        parts: dict[Split, Part] = {}
        for split, part in rows.items():
            parts[split] = Part(part, class_indices(part, names, known), part.file)
        if share and "train" in parts:
            parts["train"], parts["validation"] = cut_validation(parts["train"], names, share, options.seed)
        for split, part in parts.items():
            parts[split] = sampled(part, options.rows_wanted(split), options.seed, split)
        return parts, names

    def _renamed(self, rows: Rows) -> Rows:
        """Rows with the task's own class names."""
        ours = {other: name for name, others in self.labels.items() for other in others}
        if ours:
            rows.labels = [ours.get(label, label) for label in rows.labels]
        return rows


def _selection(source: Source, share: float | None, seed: int) -> str:
    if share is None:
        return f"validation, {source.names['validation']}"
    return f"validation, {cut_description(share, seed)}" if share else "no split: data.validation is 0"


SENTIMENT = {"negative": ("0", "neg"), "positive": ("1", "pos")}

FILES = TextTask()
AG_NEWS = TextTask(
    vocab_size=BERT_VOCAB_SIZE,
    labels={"World": ("0",), "Sports": ("1",), "Business": ("2",), "Sci/Tech": ("3",)},
    hub="fancyzhx/ag_news",
)
IMDB = TextTask(vocab_size=BERT_VOCAB_SIZE, labels=SENTIMENT, hub="stanfordnlp/imdb")
IMDB_CHAR = TextTask(tokenizer="char", max_length=4000, labels=SENTIMENT, hub="stanfordnlp/imdb")
