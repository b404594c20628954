"""The data settings, `--data.*`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

from ..core.errors import UserError, nearest, quoted
from ..core.settings import Range, check_ranges, setting

SUBWORDS = ("bpe", "unigram")
LEARNED = ("wordpiece", *SUBWORDS)
TOKENIZERS = (*LEARNED, "char", "byte", "listops")
Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
ROWS = Range(1, 2**40)
PAIR_OPTIONS = frozenset(
    {"source", "target", "source_lang", "target_lang"}
    | {"validation_source", "validation_target", "test_source", "test_target"}
)


@dataclass
class DataOptions:
    """Data settings. None means the default of the task."""

    task: str = setting(
        "files",
        "files (your own texts and classes), regression (texts and numbers), multilabel (several labels per text),"
        " tokens (a tag per word), masked or causal (texts without labels), translation, listops, docstrings, agnews,"
        " imdb or imdb-char. With a source and a target, or their languages, files means translation; with a label"
        " separator or several label columns, multilabel; with a .conll file, tokens.",
    )
    path: str | None = setting(
        None,
        "A file (csv, tsv, jsonl, parquet; plain or gzip), or a folder with train, validation and test files; for"
        " translation a folder with train.en, train.de and so on, plain or gzip; for masked and causal any"
        " folder of texts, .txt too.",
    )
    hub: str | None = setting(None, "A dataset on the Hugging Face hub, instead of a path; it is downloaded.")
    hub_config: str | None = setting(None, "Configuration of the hub dataset, such as de-en, if it has several.")
    text: list[str] | str | None = setting(
        None, "Column of the texts; recognized by its name by default. Two columns are pairs of texts."
    )
    label: list[str] | str | None = setting(
        None,
        "Column of the classes or numbers; recognized by its name by default. Several columns of 0 and 1 are one label"
        " each (multilabel).",
    )
    label_separator: str | None = setting(
        None, "Separator of labels in the label column, such as '|'; a text may have any number of labels."
    )
    source: str | None = setting(None, "File with one source sentence per line (translation); plain or gzip.")
    target: str | None = setting(None, "File with the translation of each of these lines.")
    source_lang: str | None = setting(
        None, "Language to translate from, as in the names of the files in the folder, or on the hub."
    )
    target_lang: str | None = setting(None, "Language to translate to, named in the same way.")
    validation_source: str | None = setting(
        None, "Source sentences for model selection, if they are not in the folder."
    )
    validation_target: str | None = setting(None, "Their translations.")
    test_source: str | None = setting(None, "Source sentences to score at the end, if they are not in the folder.")
    test_target: str | None = setting(None, "Their translations.")
    validation: float | str | None = setting(
        None,
        "File for model selection, or the fraction of train to use for it. Without a file the default is 0.1,"
        " at most 10,000 rows; in translation only a fraction, by default 0.05 and at most 2,000 pairs.",
    )
    test: str | None = setting(None, "A file to score at the end, if it is not in the folder.")
    tokenizer: str | None = setting(
        None,
        "wordpiece, bpe, unigram, char, byte or listops; bpe or unigram for translation. Or a folder with a saved"
        " Hugging Face tokenizer, or a tokenizer.json.",
    )
    vocab: str | None = setting(
        None, "A BERT vocab.txt for wordpiece; without it, word pieces are learned from the training texts."
    )
    vocab_size: int | None = setting(None, "Maximum size of a learned vocabulary.", Range(1, 2**24))
    max_length: int | None = setting(
        None,
        "Maximum tokens per text. Longer texts are truncated; language models split them into windows, and"
        " translation skips them in training. In listops, every expression is shorter than this.",
        Range(1, 2**24),
    )
    long: Literal["cut", "window"] = setting(
        "cut",
        "How to handle texts longer than max_length: cut truncates them, window splits them into windows whose"
        " predictions are averaged.",
    )
    min_length: int | None = setting(None, "In listops, every expression is longer than this.", Range(0, 2**24))
    brackets: Literal["keep", "drop"] = setting(
        "keep", "In listops, keep the brackets or drop them (then the expression tree is ambiguous)."
    )
    train_rows: int | None = setting(
        None,
        "Train on this many rows (listops generates them); a validation split cut from train shrinks in proportion.",
        ROWS,
    )
    validation_rows: int | None = setting(None, "Validate on this many rows.", ROWS)
    test_rows: int | None = setting(None, "Test on this many rows.", ROWS)
    seed: int = setting(0, "Random seed for splits, samples and generated data.", Range(0, 2**32 - 1))
    unlabelled: str | None = setting(
        None,
        "Texts without labels to learn word vectors from: a file (txt, csv, tsv, jsonl, parquet; plain or gzip) or a"
        " folder.",
    )
    cache: str | None = setting(
        None,
        "Folder for prepared, generated and downloaded data. The default is the environment variable"
        " TRANSEVOLVE_CACHE, or transevolve in the user's cache folder.",
    )

    def rows_wanted(self, split: Split) -> int | None:
        return getattr(self, f"{split}_rows")


class TokenizerChoice(NamedTuple):
    """The tokenizer, the maximum tokens per text, and the size of a learned vocabulary, as they are used.

    The fields are named like the settings that select them.
    """

    tokenizer: str
    max_length: int
    vocab_size: int | None


def changed(options: DataOptions) -> set[str]:
    """The options that differ from their defaults."""
    return {field.name for field in fields(options) if getattr(options, field.name) != field.default}


def check_options(options: DataOptions, uses: frozenset[str]) -> None:
    """Raise an error for invalid values, and for options that the task would ignore."""
    ignored = sorted(changed(options) - uses - {"task", "seed", "cache"})
    if ignored:
        raise UserError(
            f"data.{ignored[0]} is not used by the task {options.task!r}: remove it"
            f" (the task uses {', '.join(sorted(uses))})"
        )
    if options.brackets not in ("keep", "drop"):
        raise UserError(f"data.brackets must be keep or drop, not {options.brackets!r}")
    try:
        check_ranges(options)
    except ValueError as error:
        raise UserError(f"data.{error}") from None
    if options.hub_config is not None and options.hub is None:
        raise UserError("data.hub_config is set without data.hub: name the dataset too")
    if isinstance(options.validation, int | float) and not 0 <= options.validation < 1:
        raise UserError(
            "data.validation must be a file, or a fraction of the training rows from 0 to below 1,"
            f" not {options.validation}"
        )


def check_tokenizer(kind: str, options: DataOptions, choices: Sequence[str] = TOKENIZERS) -> None:
    """Raise an error if the task cannot use the tokenizer, or the tokenizer would ignore a vocabulary option."""
    saved = kind not in TOKENIZERS and (os.path.exists(kind) or "/" in kind or kind.endswith(".json"))
    if kind not in TOKENIZERS and not saved:
        raise UserError(
            f"data.tokenizer {kind!r} is unknown: choose from {quoted(choices)}, or name a folder with tokenizer.json"
            f"{nearest(kind, choices)}"
        )
    if saved and choices == TOKENIZERS:
        if options.vocab is not None or options.vocab_size is not None:
            name = "vocab" if options.vocab is not None else "vocab_size"
            raise UserError(f"data.tokenizer {kind} has a fixed vocabulary: remove data.{name}")
        return
    if kind not in choices:
        raise UserError(f"data.tokenizer {kind!r} cannot be used for {options.task}: choose from {quoted(choices)}")
    if options.vocab is not None and kind != "wordpiece":
        raise UserError(f"data.vocab contains word pieces: it cannot be used with data.tokenizer {kind!r}")
    if options.vocab is not None and options.vocab_size is not None:
        raise UserError("data.vocab fixes the vocabulary: remove data.vocab_size")
    if options.vocab_size is not None and kind in ("byte", "listops"):
        raise UserError(f"data.tokenizer {kind!r} has a fixed vocabulary: remove data.vocab_size")
