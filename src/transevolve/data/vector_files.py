"""Reads word vectors in the text format of word2vec, GloVe and fastText: a word and its numbers per line."""

from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .lines import numbered_lines, open_bytes, stripped


def vector_width(path: str | Path) -> int:
    """The dimension of the vectors in a file."""
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path)):
            parts = stripped(line).rstrip(" ").split(" ")
            return int(parts[1]) if _is_header(number, parts) else len(parts) - 1
    raise UserError(f"{path}: there is no vector in this file; give one word and its numbers per line")


def read_vectors(path: str | Path, wanted: dict[str, int], room: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Read the vectors of the words in `wanted`, which maps words to rows; other words are skipped.

    Returns the rows, and a mask of the rows that were found. The header "count width" of word2vec and fastText is
    optional. If a word occurs twice, the first vector is used. Words may contain spaces. Raises an error if the
    vectors are wider than `room`.
    """
    columns: int | None = None
    vectors = np.zeros((0, 0), dtype=np.float32)
    found = np.zeros(max(wanted.values(), default=-1) + 1, dtype=bool)
    with open_bytes(path) as stream:
        for number, line in numbered_lines(stream, str(path)):
            parts = stripped(line).rstrip(" ").split(" ")
            if _is_header(number, parts):
                columns = int(parts[1])
                continue
            if columns is None:
                columns = len(parts) - 1
            if len(vectors) == 0:
                _check_width(path, number, columns, room)
                vectors = np.zeros((len(found), columns), dtype=np.float32)
            extra = len(parts) - 1 - columns
            if extra < 0 or (extra > 0 and _is_number(parts[extra])):
                raise UserError(
                    f"{path}, line {number}: {len(parts) - 1} numbers, but {columns} are expected; fix or remove it"
                )
            row = wanted.get(" ".join(parts[: extra + 1]))
            if row is None or found[row]:
                continue
            vectors[row] = _numbers(path, number, parts[-columns:])
            found[row] = True
    if not len(vectors):
        raise UserError(f"{path}: there is no vector in this file; give one word and its numbers per line")
    if not found.any():
        raise UserError(f"{path}: none of its words is in the vocabulary; use vectors of the language of your texts")
    return vectors, found


def tokenizer_words(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """The pieces that can be whole words, as a vector file spells them, and their ids.

    The leading space of byte-level pieces is removed.
    """
    words: dict[str, int] = {}
    for piece, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if number not in tokenizer.all_special_ids and not piece.startswith("##"):
            words.setdefault(piece.removeprefix("Ġ"), number)
    return words


def _is_header(number: int, parts: list[str]) -> bool:
    return number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts)


def _check_width(path: str | Path, number: int, columns: int, room: int | None) -> None:
    if columns < 1:
        raise UserError(f"{path}, line {number}: there are no numbers; give one word and its numbers per line")
    if room is not None and columns > room:
        raise UserError(
            f"{path}, line {number}: vectors of width {columns}, but the model has room for {room}; increase"
            " model.hidden_size, or do not set it"
        )


def _numbers(path: str | Path, number: int, parts: list[str]) -> np.ndarray:
    try:
        values = np.array(parts, dtype=np.float32)
    except ValueError:
        wrong = next(part for part in parts if not _is_number(part))
        raise UserError(f"{path}, line {number}: {wrong!r} is not a number; fix or remove the line") from None
    if not np.isfinite(values).all():
        raise UserError(f"{path}, line {number}: a number is not finite; fix or remove the line")
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
