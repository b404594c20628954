"""Translation: sentence pairs, with one vocabulary for both languages."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .data import DataReport, PairFacts, TextData
from .encoding import Encoded, SplitWriter, encode, unknown_count
from .options import PAIR_OPTIONS, SPLITS, SUBWORDS, DataOptions, Split, TokenizerChoice, check_tokenizer
from .pair_sources import PairSource, pair_source, require_train
from .pairs import Pairs
from .prepared import prepared
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
from .stored import Chained, batched, progress
from .tokenizers import build_tokenizer

if TYPE_CHECKING:
    from datasets import Dataset

USES = PAIR_OPTIONS | {"path", "hub", "hub_config", "validation", "tokenizer", "vocab_size", "max_length"}
USES |= {"train_rows", "validation_rows", "test_rows"}
TOKENIZER = "bpe"
VOCAB_SIZE = 32_000
MAX_LENGTH = 256
SHARE, MOST_PAIRS = 0.05, 2000


def load(
    options: DataOptions,
    tokenizer: PreTrainedTokenizerFast | None,
    labels: Sequence[str] | None,
    splits: Sequence[Split],
) -> TextData:
    kind = options.tokenizer or TOKENIZER
    check_tokenizer(kind, options, SUBWORDS)
    if tokenizer is not None and tokenizer.eos_token_id is None:
        raise UserError("the model's tokenizer has no end token, which translation needs; choose a translation model")
    source = pair_source(options)
    _check_validation(options)
    if tokenizer is None:
        require_train(source)
    max_length = options.max_length or (tokenizer.model_max_length if tokenizer else MAX_LENGTH)
    chosen = TokenizerChoice(kind, max_length, options.vocab_size or VOCAB_SIZE)

    def load_pairs() -> TextData:
        return _load(source, options, chosen, tokenizer, splits)

    return prepared(
        replace(options, **chosen._asdict()),
        load_pairs,
        loader=f"pairs {VOCAB_SIZE} {MAX_LENGTH} {SHARE} {MOST_PAIRS}",
        names=source.names,
        hub=source.hub,
        tokenizer=tokenizer,
        labels=labels,
        splits=splits,
    )


def _load(
    source: PairSource,
    options: DataOptions,
    chosen: TokenizerChoice,
    tokenizer: PreTrainedTokenizerFast | None,
    splits: Sequence[Split],
) -> TextData:
    parts = _parts(source, options, splits, learn=tokenizer is None)
    origin = "as saved with the model"
    if tokenizer is None:
        texts = Chained(parts["train"].sources, parts["train"].targets)
        tokenizer, origin = build_tokenizer(chosen, texts, seed=options.seed)
    report = DataReport(
        task=options.task,
        selection=selection(options, source.names, described),
        tokenizer=f"{origin}, {len(tokenizer):,} tokens",
        vocab_size=len(tokenizer),
        max_length=chosen.max_length,
        seed=options.seed,
        languages=source.languages,
        settings=chosen._asdict(),
    )
    encoded = {}
    for split in SPLITS:
        part = parts.pop(split, None)
        if part is not None and split in splits:
            encode_split = encode_training if split == "train" else encode_scored
            encoded[split], report.splits[split] = encode_split(part, tokenizer, chosen.max_length)
    train, validation, test = (encoded.get(split) for split in SPLITS)
    return TextData(train, validation, test, [], tokenizer, report)


def encode_training(part: Pairs, tokenizer: PreTrainedTokenizerFast, max_length: int) -> tuple["Dataset", PairFacts]:
    """Encode the pairs and skip those with a side that is too long, since truncated pairs are wrong translations."""
    facts, table = PairFacts(part.origin, 0, skipped_empty=part.skipped), SplitWriter()
    for _, sources, targets in _encoded(part, tokenizer, None):
        kept = np.maximum(sources.lengths, targets.lengths) <= max_length
        facts.skipped_long += int((~kept).sum())
        if kept.any():
            sources, targets = sources.select(kept), targets.select(kept)
            facts.rows += int(kept.sum())
            _count(facts, tokenizer, sources.ids, targets.ids)
            table.add_pairs(sources, targets, {})
    if not facts.rows:
        raise UserError(
            f"{part.origin}: every pair has a side of more than {max_length:,} tokens; increase data.max_length"
        )
    return table.split(), facts


def encode_scored(part: Pairs, tokenizer: PreTrainedTokenizerFast, max_length: int) -> tuple["Dataset", PairFacts]:
    """Encode all pairs and keep their texts, so that scores include long pairs."""
    facts, table = PairFacts(part.origin, len(part), empty=part.empty()), SplitWriter()
    for texts, sources, targets in _encoded(part, tokenizer, max_length):
        facts.truncated += sources.truncated
        facts.truncated_targets += targets.truncated
        _count(facts, tokenizer, sources.ids, targets.ids)
        table.add_pairs(sources, targets, dict(zip(("source", "target"), texts, strict=True)))
    return table.split(), facts


def _encoded(
    part: Pairs, tokenizer: PreTrainedTokenizerFast, max_length: int | None
) -> Iterator[tuple[list[tuple[str, ...]], Encoded, Encoded]]:
    """Yield batches of pairs: the texts, and the tokens of both sides."""
    start = 0
    with progress(f"tokenizing {part.origin}", len(part)) as advance:
        for pairs in batched(zip(part.sources, part.targets, strict=True)):
            texts = list(zip(*pairs, strict=True))
            sources, targets = (
                encode(tokenizer, side, max_length, lambda index, start=start: part.where(start + index))
                for side in texts
            )
            yield texts, sources, targets
            start += len(pairs)
            advance(len(pairs))


def _count(facts: PairFacts, tokenizer: PreTrainedTokenizerFast, sources: np.ndarray, targets: np.ndarray) -> None:
    facts.tokens += len(sources) + len(targets)
    facts.target_tokens += len(targets)
    facts.unknown += unknown_count(tokenizer, sources) + unknown_count(tokenizer, targets)


def described(options: DataOptions) -> str:
    return cut_description(options, SHARE, MOST_PAIRS)


def _check_validation(options: DataOptions) -> None:
    if isinstance(options.validation, str):
        raise UserError(
            "data.validation names one file, but translation needs two: set data.validation_source and"
            " data.validation_target"
        )
    if options.validation is not None and options.validation_source is not None:
        raise UserError("data.validation and data.validation_source are both set: remove one")


def _parts(source: PairSource, options: DataOptions, splits: Sequence[Split], learn: bool) -> dict[Split, Pairs]:
    """The requested splits, and those they are derived from."""
    needed = needed_splits(options, source.names, splits, learn)
    if "train" in needed:
        require_train(source)
    parts: dict[Split, Pairs] = {split: source.readers[split]() for split in SPLITS if split in needed}
    if "train" in parts:
        parts["train"] = _trainable(parts["train"])
    cut = partial(_cut_validation, options) if is_cut(options, source.names) else None
    return cut_and_sampled(parts, options, cut, partial(_sampled, options.seed))


def _trainable(train: Pairs) -> Pairs:
    kept = train.without_empty()
    if not len(kept):
        raise UserError(f"{train.origin}: no line has text on both sides; check that the files are aligned")
    return kept


def _cut_validation(options: DataOptions, train: Pairs) -> tuple[Pairs, Pairs]:
    if len(train) < 2:
        raise UserError(
            f"{train.origin}: one pair cannot be cut into train and validation; add pairs,"
            " or give data.validation_source and data.validation_target"
        )
    share = cut_share(options, len(train), SHARE, MOST_PAIRS)
    rest, cut = stratified_cut(np.zeros(len(train)), share, options.seed)
    return train.select(rest, train.origin, train.skipped), train.select(cut, described(options))


def _sampled(seed: int, part: Pairs, wanted: int, split: Split) -> Pairs:
    origin = f"{part.origin}, a sample of {len(part):,} pairs (seed {seed})"
    return part.select(stratified_sample(np.zeros(len(part)), wanted, seed), origin, part.skipped)
