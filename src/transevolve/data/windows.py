"""Splits long texts into windows, and computes the entropy of unigrams."""

import numpy as np
from transformers import PreTrainedTokenizerFast

from .encoding import Encoded, no_room, offsets_of


def special_frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer adds before and after a text."""
    known = tokenizer.all_special_ids
    words = (tokenizer.decode([token]) for token in range(len(tokenizer)) if token not in known)
    for encoding in map(tokenizer.backend_tokenizer.encode, words):
        real = [position for position, special in enumerate(encoding.special_tokens_mask) if not special]
        if real:
            return encoding.ids[: real[0]], encoding.ids[real[-1] + 1 :]
    return [], []


def cut_windows(
    encoded: Encoded, max_length: int, frame: tuple[list[int], list[int]] = ([], []), least: int = 0
) -> tuple[Encoded, np.ndarray]:
    """Split each text into as few windows as possible; their lengths differ by at most one token.

    Args:
        encoded: The texts, each with the tokens of the frame around it.
        max_length: The maximum number of tokens per window.
        frame: The tokens before and after each window.
        least: The number of windows of a text without other tokens.

    Returns:
        The windows, and the index of each window's text.
    """
    before, after = (np.asarray(tokens, dtype=encoded.ids.dtype) for tokens in frame)
    room = max_length - len(before) - len(after)
    if room < 1:
        raise no_room(max_length)
    parts, lengths, owners = [encoded.ids[:0]], [], []
    for owner, ids in enumerate(encoded.rows()):
        body = ids[len(before) : len(ids) - len(after)]
        count = max(least, -(-len(body) // room))
        for window in np.array_split(body, count) if count else ():
            parts += [before, window, after]
            lengths.append(len(before) + len(window) + len(after))
            owners.append(owner)
    counted = offsets_of(np.array(lengths, dtype=np.int64))
    return Encoded(np.concatenate(parts), counted), np.array(owners, dtype=np.int64)


def unigram_entropy(counts: np.ndarray, special: list[int]) -> float:
    """The entropy of the unigram distribution, in nats per token."""
    counts = counts.copy()
    counts[special] = 0
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
