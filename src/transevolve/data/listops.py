"""ListOps as defined by the Long Range Arena, generated locally, once per setting."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from ..core.files import atomic_file
from .cache_folder import cache_folder, locked, write_errors
from .data import DataReport, SplitFacts, TextData
from .encoding import Encoded
from .expressions import CLOSE, Expressions, generate
from .options import SPLITS, DataOptions, Split
from .tokenizers import listops_tokenizer

USES = frozenset({"min_length", "max_length", "brackets", "train_rows", "validation_rows", "test_rows"})
LABELS = [str(digit) for digit in range(10)]
ROWS: dict[Split, int] = {"train": 96_000, "validation": 2_000, "test": 2_000}
MIN_LENGTH, MAX_LENGTH = 500, 2000
GENERATOR = 1


def load(
    options: DataOptions,
    tokenizer: PreTrainedTokenizerFast | None,
    labels: Sequence[str] | None,
    splits: Sequence[Split],
) -> TextData:
    low = MIN_LENGTH if options.min_length is None else options.min_length
    high = MAX_LENGTH if options.max_length is None else options.max_length
    if low < 0 or high < low + 2:
        raise UserError(f"no ListOps expression is longer than {low} and shorter than {high}; widen the lengths")
    ours = listops_tokenizer(high, options.brackets)
    if (tokenizer is not None and tokenizer.get_vocab() != ours.get_vocab()) or (labels and list(labels) != LABELS):
        raise UserError(
            "the model's tokenizer or labels are not those of the task 'listops'; use the task of the model"
        )
    rows = {split: options.rows_wanted(split) or ROWS[split] for split in SPLITS}
    parts = cached_expressions(cache_folder(options.cache), rows, low, high, options.seed)  # pyright: ignore[reportArgumentType]
    report = DataReport(
        task="listops",
        selection=f"validation, {_origin(options.seed)}",
        tokenizer=f"ListOps symbols, brackets: {options.brackets}, {len(ours)} tokens",
        vocab_size=len(ours),
        max_length=high,
        seed=options.seed,
        settings={"min_length": low, "max_length": high, **{f"{split}_rows": count for split, count in rows.items()}},
    )
    datasets = {}
    for split in SPLITS:
        part = parts.pop(split)
        if split in splits:
            encoded = encoded_expressions(part, options.brackets)
            datasets[split] = encoded.dataset(part.answers.astype(np.int64))
            report.splits[split] = _facts(part, encoded, options.seed)
    train, validation, test = (datasets.get(split) for split in SPLITS)
    return TextData(train, validation, test, LABELS, tokenizer or ours, report)


def encoded_expressions(part: Expressions, brackets: str) -> Encoded:
    """Token ids as in the tokenizer; without brackets the operators keep their ids."""
    if brackets == "keep":
        return Encoded(part.tokens, part.offsets)
    kept = part.tokens != CLOSE
    before = np.concatenate([[0], np.cumsum(kept)])
    return Encoded(part.tokens[kept], before[part.offsets])


def cached_expressions(
    folder: Path, rows: dict[Split, int], min_length: int, max_length: int, seed: int
) -> dict[Split, Expressions]:
    """The splits, from the cache if they were generated before with these settings. Splits do not overlap.

    Test is generated first, then validation, so that they do not depend on the number of training rows.
    """
    order: tuple[Split, ...] = ("test", "validation", "train")
    settings = f"v{GENERATOR}-{min_length}-{max_length}-{'-'.join(str(rows[split]) for split in order)}-seed{seed}"
    file = folder / f"listops-{settings}.npz"
    if not file.exists():
        with locked(file):
            if not file.exists():
                _store(file, generate(sum(rows.values()), min_length, max_length, seed))
    expressions = _loaded(file)
    parts, start = {}, 0
    for split in order:
        parts[split] = expressions.span(start, start + rows[split])
        start += rows[split]
    return parts


def _loaded(file: Path) -> Expressions:
    try:
        with open(file, "rb") as raw, np.load(raw) as stored:
            return Expressions(stored["tokens"], stored["offsets"], stored["answers"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{file}: the cached expressions are damaged ({error}); delete the file") from None


def _store(file: Path, expressions: Expressions) -> None:
    """Write atomically, so that other processes never read an incomplete file."""
    with write_errors(file.parent), atomic_file(file) as raw:
        np.savez(raw, **vars(expressions))


def _facts(part: Expressions, encoded: Encoded, seed: int) -> SplitFacts:
    counts = np.bincount(part.answers, minlength=10).tolist()
    return SplitFacts(
        origin=_origin(seed),
        rows=len(part),
        classes=dict(zip(LABELS, counts, strict=True)),
        tokens=len(encoded.ids),
    )


def _origin(seed: int) -> str:
    return f"generated (seed {seed})"
