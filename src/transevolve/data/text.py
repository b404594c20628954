"""Labelled texts: AG News, IMDB in word pieces or characters, and user files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .data import DataReport, SplitFacts, TextData
from .files import file_source
from .options import LEARNED, SPLITS, DataOptions, Split, TokenizerChoice, check_tokenizer
from .pair_tokenizers import pair_tokenizer, single_texts
from .parts import Part, cut_validation, described, encode_part, sampled
from .prepared import prepared
from .rows import Rows
from .sources import Source
from .splitting import cut_and_sampled, is_cut, needed_splits, selection
from .stored import text_column
from .targets import Classes, Targets
from .tokenizers import DEFAULT_VOCAB_SIZE, build_tokenizer
from .unlabelled import vocabulary_texts

if TYPE_CHECKING:
    from datasets import Dataset

BERT_VOCAB_SIZE = 30522
USES = frozenset(
    {"path", "hub", "hub_config", "text", "label", "validation", "test", "unlabelled", "long"}
    | {"tokenizer", "vocab", "vocab_size", "max_length", "train_rows", "validation_rows", "test_rows"}
)


@dataclass(frozen=True)
class TextTask:
    """A task with labelled texts: its defaults and its loader.

    Args:
        tokenizer: The default tokenizer.
        max_length: The default number of tokens per text.
        vocab_size: The default size of a learned vocabulary of pieces.
        labels: Class names, each with its other spellings in files. If empty, the training rows define the classes.
        hub: The dataset on the Hugging Face hub.
        targets: How to interpret the label column.
    """

    tokenizer: str = "wordpiece"
    max_length: int = 512
    vocab_size: int = DEFAULT_VOCAB_SIZE
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hub: str | None = None
    targets: Targets = field(default_factory=Classes)

    def load(
        self,
        options: DataOptions,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        chosen = self._chosen(options, tokenizer)
        source = self._source(options)
        if labels is None:
            self._require_train(source, options)
            source.choose(source.tables["train"]())

        def load() -> TextData:
            return self._load(source, options, chosen, tokenizer, labels, splits)

        return prepared(
            replace(options, **source.columns, **chosen._asdict()),
            load,
            loader=self._signature(),
            names=source.names,
            hub=source.hub,
            tokenizer=tokenizer,
            labels=labels,
            splits=splits,
        )

    def _chosen(self, options: DataOptions, tokenizer: PreTrainedTokenizerFast | None) -> TokenizerChoice:
        kind = options.tokenizer or self.tokenizer
        check_tokenizer(kind, options)
        max_length = options.max_length or (tokenizer.model_max_length if tokenizer else self.max_length)
        size = options.vocab_size or (self.vocab_size if kind in LEARNED and options.vocab is None else None)
        return TokenizerChoice(kind, max_length, size)

    def _signature(self) -> str:
        """A string of everything besides the options that affects the loaded data."""
        targets = f"{type(self.targets).__module__}.{type(self.targets).__qualname__} {vars(self.targets)}"
        return f"{self.tokenizer} {self.max_length} {self.vocab_size} {dict(self.labels)} {targets}"

    def _load(
        self,
        source: Source,
        options: DataOptions,
        chosen: TokenizerChoice,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        parts, names = self._parts(source, options, labels, splits, learn=tokenizer is None)
        windows = options.long == "window"
        if source.pairs and (windows or options.unlabelled is not None):
            name = "long window" if windows else "unlabelled"
            raise UserError(f"data.{name} is for single texts, not for pairs: remove it")
        origin, learned = "as saved with the model", tokenizer is None
        if tokenizer is None:
            train = parts["train"].rows.texts
            texts = single_texts(train, source.pairs)
            if options.unlabelled is not None and chosen.vocab_size is not None:
                texts = text_column(chain(train, vocabulary_texts(options.unlabelled, source.columns["text"])))
            tokenizer, origin = build_tokenizer(chosen, texts, options.vocab, options.seed)
            if source.pairs:
                pair_tokenizer(tokenizer)
        report = DataReport(
            task=options.task,
            selection=selection(options, source.names, described),
            tokenizer=f"{origin}, {len(tokenizer):,} tokens",
            vocab_size=len(tokenizer),
            max_length=chosen.max_length,
            seed=options.seed,
            validation_cut=is_cut(options, source.names),
            columns=source.columns,
            settings={**chosen._asdict(), "vocab_size": chosen.vocab_size if learned else None},
        )
        encoded, originals = {}, {}
        for split in SPLITS:
            part = parts.pop(split, None)
            if part is not None and split in splits:
                encoded[split], report.splits[split] = self.encode(part, names, tokenizer, chosen.max_length, windows)
                originals[split] = part.rows.texts
        train, validation, test = (encoded.get(split) for split in SPLITS)
        return TextData(train, validation, test, names, tokenizer, report, originals)

    def encode(
        self, part: Part, names: Sequence[str], tokenizer: PreTrainedTokenizerFast, max_length: int, windows: bool
    ) -> tuple["Dataset", SplitFacts]:
        return encode_part(part, self.targets, names, tokenizer, max_length, windows)

    def _source(self, options: DataOptions) -> Source:
        if options.path is not None and options.hub is not None:
            raise UserError("data.path and data.hub are both set: remove one")
        if options.hub is not None:
            from .hub import hub_source

            return hub_source(options)
        return file_source(options)

    def _parts(
        self,
        source: Source,
        options: DataOptions,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
        learn: bool,
    ) -> tuple[dict[Split, Part], list[str]]:
        """The requested splits, those they are derived from, and the names of the labels."""
        needed = needed_splits(options, source.names, splits, learn or labels is None)
        if "train" in needed:
            self._require_train(source, options)
        rows: dict[Split, Rows] = {split: self._renamed(source.read(split)) for split in SPLITS if split in needed}
        if labels is not None:
            names, known = list(labels), "the model"
        else:
            found = self.targets.learn(rows["train"], source.columns.get("label"))
            names, known = (list(self.labels), f"the task {options.task!r}") if self.labels else (found, "train")
        parts: dict[Split, Part] = {}
        for split, part in rows.items():
            values = self.targets.values(part, names, known)
            parts[split] = Part(part, values, self.targets.strata(values), part.file)
        cut = partial(cut_validation, names, options) if is_cut(options, source.names) else None
        return cut_and_sampled(parts, options, cut, partial(sampled, options.seed)), names

    def _require_train(self, source: Source, options: DataOptions) -> None:
        if "train" not in source.names:
            download = f"; data.hub {self.hub} downloads it" if self.hub else ""
            raise UserError(
                f"the task {options.task!r} needs data.path, a file or a folder with train and test{download}"
            )

    def _renamed(self, rows: Rows) -> Rows:
        """Rows with the class names of the task."""
        ours = {other: name for name, others in self.labels.items() for other in others}
        if ours:
            rows.labels = [ours.get(label, label) for label in rows.labels]
        return rows


SENTIMENT = {"negative": ("0", "neg"), "positive": ("1", "pos")}

FILES = TextTask()
AG_NEWS = TextTask(
    vocab_size=BERT_VOCAB_SIZE,
    labels={"World": ("0",), "Sports": ("1",), "Business": ("2",), "Sci/Tech": ("3",)},
    hub="fancyzhx/ag_news",
)
IMDB = TextTask(vocab_size=BERT_VOCAB_SIZE, labels=SENTIMENT, hub="stanfordnlp/imdb")
IMDB_CHAR = TextTask(tokenizer="char", max_length=4000, labels=SENTIMENT, hub="stanfordnlp/imdb")
