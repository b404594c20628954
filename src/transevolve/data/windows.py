"""Splits long texts into windows, and computes the entropy of unigrams."""

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .encoding import Encoded, offsets_of


def special_frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer adds before and after a text."""
    ids = list(tokenizer("")["input_ids"])
    starts = (tokenizer.cls_token_id, tokenizer.bos_token_id)
    before = next((position for position, token in enumerate(ids) if token not in starts), len(ids))
    return ids[:before], ids[before:]


def cut_windows(
    encoded: Encoded,
    max_length: int,
    stripped: tuple[int, int] = (0, 0),
    framed: tuple[list[int], list[int]] = ([], []),
) -> Encoded:
    """Split each text into as few windows as possible; their lengths differ by at most one token.

    Args:
        encoded: The texts.
        max_length: The maximum number of tokens per window.
        stripped: The number of tokens to remove at the start and at the end of each text.
        framed: The tokens to add before and after each window. A text without other tokens has no window.
    """
    before, after = (np.asarray(tokens, dtype=encoded.ids.dtype) for tokens in framed)
    room = max_length - len(before) - len(after)
    if room < 1:
        raise UserError(f"data.max_length {max_length} leaves no room for text besides the special tokens; increase it")
    parts: list[np.ndarray] = []
    lengths: list[int] = []
    for start, end in zip(encoded.offsets + stripped[0], encoded.offsets[1:] - stripped[1], strict=False):
        count = -(-(end - start) // room)
        for window in np.array_split(encoded.ids[start:end], count) if count > 0 else ():
            parts += [before, window, after]
            lengths.append(len(before) + len(window) + len(after))
    ids = np.concatenate(parts) if parts else encoded.ids[:0]
    return Encoded(ids, offsets_of(np.array(lengths, dtype=np.int64)))


def unigram_entropy(counts: np.ndarray, special: list[int]) -> float:
    """The entropy of the unigram distribution, in nats per token."""
    counts = counts.copy()
    counts[special] = 0
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
