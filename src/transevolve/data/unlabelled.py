"""Texts without labels, streamed from files and tokenized once."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import tokenizers
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from ..core.progress import Bar
from ..core.windows import windows
from .contents import contents_of
from .encoding import BATCH, Encoded, encode
from .entry import tokenizer_digest
from .kept import kept_ids, key_of_parts
from .shards import existing
from .stream import iter_texts
from .tables import open_table, table_format

MOST_CHARACTERS = 100_000_000
"""The number of characters of unlabelled texts to learn a vocabulary from."""


def text_files(path: str | Path) -> list[Path]:
    """The file, or all files in the folder and its subfolders, sorted, without hidden files."""
    path = existing(path, "unlabelled")
    if not path.is_dir():
        return [path]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    return [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]


def unlabelled_texts(path: str | Path, column: str | list[str] | None = None) -> Iterator[str]:
    """All texts that are not empty; `column` is the text column, in tables that have it."""
    found = False
    for file in text_files(path):
        named = (
            column if isinstance(column, str) and table_format(file) and column in open_table(file).columns else None
        )
        for _, text in iter_texts(file, named):
            if text.strip():
                found = True
                yield text
    if not found:
        raise UserError(f"{path}: there is no text in it; data.unlabelled needs texts, one per line or row")


def vocabulary_texts(path: str | Path, column: str | list[str] | None = None) -> Iterator[str]:
    """The first `MOST_CHARACTERS` characters of text, which limits the time to learn a vocabulary."""
    characters = 0
    for text in unlabelled_texts(path, column):
        yield text
        characters += len(text)
        if characters >= MOST_CHARACTERS:
            return


def unlabelled_key(path: str, column: str | list[str] | None) -> str:
    """A key of the contents of the files, in order, and of the column."""
    files = (f"{table_format(file)} {contents_of(file).sha256}" for file in text_files(path))
    return key_of_parts(f"column {column}", *files)


def unlabelled_ids(
    path: str, tokenizer: PreTrainedTokenizerFast, column: str | list[str] | None, cache: Path
) -> Iterable[np.ndarray]:
    """The token ids of every text, without truncation; tokenized once, then read from the cache."""

    def encoded() -> Iterator[Encoded]:
        texts = unlabelled_texts(path, column)
        with Bar(f"tokenizing {path}", None, "texts") as bar:
            for batch in windows(texts, BATCH):
                yield encode(tokenizer, batch, None, lambda index: f"{path}, a text")
                bar.update(len(batch))

    key = key_of_parts(unlabelled_key(path, column), tokenizer_digest(tokenizer), tokenizers.__version__)
    return kept_ids(cache / f"unlabelled-{key}.arrow", encoded)
