"""Texts without labels for language models, tokenized and split into windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import AddedToken, decoders, processors
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .corpus_files import Corpus, corpus_files
from .data import DataReport, SplitFacts, TextData
from .encoding import Encoded, SplitWriter, encode
from .options import LEARNED, SPLITS, SUBWORDS, DataOptions, Split, TokenizerChoice, check_tokenizer
from .parts import MOST_ROWS, SHARE
from .prepared import prepared
from .shards import names_of_files
from .splitting import (
    cut_and_sampled,
    cut_description,
    cut_share,
    is_cut,
    needed_splits,
    selection,
    stratified_cut,
    stratified_sample,
)
from .stored import batched, progress
from .tokenizers import BOS, DEFAULT_VOCAB_SIZE, MASK, build_tokenizer
from .windows import cut_windows, special_frame, unigram_entropy

if TYPE_CHECKING:
    from datasets import Dataset

USES = frozenset(
    {"path", "text", "validation", "test", "tokenizer", "vocab", "vocab_size", "max_length"}
    | {"train_rows", "validation_rows", "test_rows"}
)


@dataclass(frozen=True)
class CorpusTask:
    """Converts texts to the rows of a language model.

    Args:
        tokenizer: The default tokenizer.
        tokenizers: The supported tokenizers.
        causal: Whether the model is causal. If so, each text starts with the start token and ends with the end token,
            and only then is split into windows. Otherwise each window gets the special tokens of a whole text, and
            the tokenizer recognizes a mask token in texts.
        max_length: The default number of tokens per window.
    """

    tokenizer: str
    tokenizers: tuple[str, ...]
    causal: bool
    max_length: int = 256

    def load(
        self,
        options: DataOptions,
        tokenizer: PreTrainedTokenizerFast | None,
        labels: Sequence[str] | None,
        splits: Sequence[Split],
    ) -> TextData:
        kind = options.tokenizer or self.tokenizer
        check_tokenizer(kind, options, self.tokenizers)
        if tokenizer is not None:
            self.require(tokenizer)
        files = corpus_files(options)
        max_length = options.max_length or (tokenizer.model_max_length if tokenizer else self.max_length)
        size = options.vocab_size or (DEFAULT_VOCAB_SIZE if kind in LEARNED else None)
        chosen = TokenizerChoice(kind, max_length, size)

        def load() -> TextData:
            return self._load(options, files, chosen, tokenizer, splits)

        return prepared(
            replace(options, **chosen._asdict()),
            load,
            loader=f"{self} {SHARE} {MOST_ROWS}",
            names=names_of_files(files),
            hub={},
            tokenizer=tokenizer,
            labels=labels,
            splits=splits,
        )

    def _load(
        self,
        options: DataOptions,
        files: dict[Split, list[Path]],
        chosen: TokenizerChoice,
        tokenizer: PreTrainedTokenizerFast | None,
        splits: Sequence[Split],
    ) -> TextData:
        parts = self._parts(options, files, splits, learn=tokenizer is None)
        origin = "as saved with the model"
        if tokenizer is None:
            texts: Any = parts["train"]
            tokenizer, origin = build_tokenizer(chosen, texts, options.vocab, options.seed)
            (add_start_token if self.causal else add_mask)(tokenizer)
        report = DataReport(
            task=options.task,
            selection=selection(options, names_of_files(files), described),
            tokenizer=f"{origin}, {len(tokenizer):,} tokens",
            vocab_size=len(tokenizer),
            max_length=chosen.max_length,
            seed=options.seed,
        )
        encoded: dict[Split, Dataset] = {}
        for split in SPLITS:
            if split in splits and split in parts:
                encoded[split], report.splits[split] = self._encode(parts[split], tokenizer, chosen.max_length)
        train, validation, test = (encoded.get(split) for split in SPLITS)
        return TextData(train, validation, test, [], tokenizer, report)

    def require(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Raise an error if the tokenizer belongs to another kind of model."""
        if self.causal and special_frame(tokenizer)[1]:
            raise UserError(
                "the model's tokenizer adds an end token to every text, so a causal model cannot continue it;"
                " use a tokenizer without one, such as that of `transevolve pretrain --objective causal`"
            )
        if not self.causal and tokenizer.mask_token_id is None:
            raise UserError("the model's tokenizer has no mask token: a masked model needs one")

    def _parts(
        self,
        options: DataOptions,
        files: dict[Split, list[Path]],
        splits: Sequence[Split],
        learn: bool,
    ) -> dict[Split, Corpus]:
        """The requested splits, and train if they are derived from it."""
        needed = needed_splits(options, {*files}, splits, learn)
        if "train" in needed and "train" not in files:
            raise UserError(f"the task {options.task!r} needs data.path, a file of texts or a folder of them")
        column = options.text if isinstance(options.text, str) else None
        parts: dict[Split, Corpus] = {split: Corpus(files[split], column) for split in SPLITS if split in needed}
        cut = partial(_cut_validation, options) if is_cut(options, {*files}) else None
        return cut_and_sampled(parts, options, cut, partial(_sampled, options.seed))

    def _encode(
        self, part: Corpus, tokenizer: PreTrainedTokenizerFast, max_length: int
    ) -> tuple["Dataset", SplitFacts]:
        special = [token for token in tokenizer.all_special_ids if token != tokenizer.unk_token_id]
        facts = SplitFacts(f"{part.origin}, windows of {len(part):,} texts", 0)
        table, counts = SplitWriter(), np.zeros(len(tokenizer), dtype=np.int64)
        with progress(f"tokenizing {part.origin}", len(part)) as advance:
            for texts in batched(part.numbered()):
                encoded = self._windows(tokenizer, texts, max_length)
                table.add_rows(encoded, np.zeros(len(encoded.lengths), dtype=np.int64))
                counts += np.bincount(encoded.ids, minlength=len(counts))
                facts.rows += len(encoded.lengths)
                advance(len(texts))
        facts.tokens = int(counts.sum())
        unknown = tokenizer.unk_token_id
        facts.unknown = int(counts[unknown]) if isinstance(unknown, int) else 0
        facts.numbers = {"unigram entropy": unigram_entropy(counts, special)}
        return table.split(), facts

    def _windows(self, tokenizer: PreTrainedTokenizerFast, chunk: list[tuple[str, str]], max_length: int) -> Encoded:
        recognized, tokenizer.split_special_tokens = tokenizer.split_special_tokens, True
        try:
            encoded = encode(tokenizer, [text for _, text in chunk], None, lambda index: chunk[index][0])
        finally:
            tokenizer.split_special_tokens = recognized
        if not self.causal:
            return cut_windows(encoded, max_length, special_frame(tokenizer))[0]
        if tokenizer.eos_token_id is not None:
            ids = np.insert(encoded.ids, encoded.offsets[1:], tokenizer.eos_token_id)
            encoded = Encoded(ids, encoded.offsets + np.arange(len(encoded.offsets)))
        return cut_windows(encoded, max_length)[0]


def add_mask(tokenizer: PreTrainedTokenizerFast) -> None:
    """Add a mask token to a tokenizer, and recognize it in texts."""
    if tokenizer.mask_token_id is None:
        pieces = tokenizer.eos_token is not None
        mask: Any = AddedToken(MASK, lstrip=pieces, rstrip=pieces, special=True)
        tokenizer.add_special_tokens({"mask_token": mask})
    tokenizer.split_special_tokens = False


def add_start_token(tokenizer: PreTrainedTokenizerFast) -> None:
    """Make a subword tokenizer add a start token instead of an end token, so that texts can be continued.

    Decoding then keeps the space before the first word, because the tokens may continue a text.
    """
    if tokenizer.bos_token_id is not None:
        backend: Any = tokenizer.backend_tokenizer
        special = [(BOS, tokenizer.bos_token_id)]
        backend.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=special)
        backend.decoder = decoders.ByteLevel()


def _cut_validation(options: DataOptions, whole: Corpus) -> tuple[Corpus, Corpus]:
    if len(whole) < 2:
        raise UserError(
            f"{whole.origin}: one text cannot be cut into train and validation; add texts, one per line or row,"
            " or give a file with data.validation"
        )
    share = cut_share(options, len(whole), SHARE, MOST_ROWS)
    rest, taken = stratified_cut(np.zeros(len(whole)), share, options.seed)
    return whole.select(rest, whole.origin), whole.select(taken, described(options))


def _sampled(seed: int, part: Corpus, wanted: int, split: Split) -> Corpus:
    origin = f"{part.origin}, a sample of {len(part):,} texts (seed {seed})"
    return part.select(stratified_sample(np.zeros(len(part)), wanted, seed), origin)


def described(options: DataOptions) -> str:
    return cut_description(options, SHARE, MOST_ROWS)


MASKED = CorpusTask("wordpiece", ("wordpiece", *SUBWORDS, "char", "byte"), causal=False)
CAUSAL = CorpusTask("bpe", (*SUBWORDS, "char", "byte"), causal=True)
