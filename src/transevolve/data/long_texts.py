"""Splits texts that are too long for the model into windows, and averages their predictions."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .encoding import Encoded, concatenated, encode, offsets_of
from .views import column_array

if TYPE_CHECKING:
    from datasets import Dataset


def encode_windows(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], max_length: int, where: Callable[[int], str]
) -> tuple[Encoded, Int[np.ndarray, " windows"]]:
    """Windows of at most `max_length` tokens, each with special tokens, and the index of each window's text."""
    before, after = special_tokens_around(tokenizer)
    room = max_length - before - after
    if room < 1:
        raise UserError(f"data.max_length {max_length} leaves no room for text besides the special tokens; increase it")
    parts, owners = [], []
    for number, ids in enumerate(encode(tokenizer, texts, None, where).rows()):
        body = ids[before : len(ids) - after]
        for window in np.array_split(body, max(1, math.ceil(len(body) / room))):
            parts.append(np.concatenate([ids[:before], window, ids[len(ids) - after :]]))
            owners.append(number)
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return Encoded(concatenated(parts, tokenizer), offsets_of(lengths)), np.array(owners, dtype=np.int64)


def special_tokens_around(tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    """The number of special tokens before and after a text."""
    mask = tokenizer.backend_tokenizer.encode("a").special_tokens_mask
    real = [position for position, special in enumerate(mask) if not special]
    return real[0], len(mask) - 1 - real[-1]


def averaged(
    outputs: Float[np.ndarray, "windows *outputs"], owners: Int[np.ndarray, " windows"] | None
) -> Float[np.ndarray, "texts *outputs"]:
    """The mean over the windows of each text; `owners` is None if each text is one window."""
    if owners is None:
        return outputs
    total = np.zeros((int(owners.max()) + 1, *outputs.shape[1:]))
    np.add.at(total, owners, outputs)
    return total / np.bincount(owners).reshape(-1, *[1] * (outputs.ndim - 1))


def labels_and_owners(rows: "Dataset") -> tuple[np.ndarray, np.ndarray | None]:
    """The label of each text, and the text of each row if rows are windows."""
    labels = column_array(rows, "labels")
    if "row" not in rows.column_names:
        return labels, None
    owners = column_array(rows, "row")
    return labels[np.unique(owners, return_index=True)[1]], owners
