"""Splits texts that are too long for the model into windows, and averages their predictions."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from transformers import PreTrainedTokenizerFast

from .encoding import Encoded, encode
from .views import column_array
from .windows import cut_windows, special_frame

if TYPE_CHECKING:
    from datasets import Dataset


def encode_windows(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], max_length: int, where: Callable[[int], str]
) -> tuple[Encoded, Int[np.ndarray, " windows"]]:
    """Windows of at most `max_length` tokens, each with special tokens, and the index of each window's text."""
    return cut_windows(encode(tokenizer, texts, None, where), max_length, special_frame(tokenizer), least=1)


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
