"""Long texts cut into windows instead of truncated, and how predictable their tokens are without context."""

import numpy as np
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .encoding import Encoded


def special_frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and after a text."""
    ids = list(tokenizer("")["input_ids"])
    starts = (tokenizer.cls_token_id, tokenizer.bos_token_id)
    before = next((place for place, token in enumerate(ids) if token not in starts), len(ids))
    return ids[:before], ids[before:]


def cut_windows(
    encoded: Encoded,
    max_length: int,
    stripped: tuple[int, int] = (0, 0),
    framed: tuple[list[int], list[int]] = ([], []),
) -> Encoded:
    """Every text in as few windows of at most `max_length` tokens as will do, of equal length up to one token.

    Args:
        encoded: The texts.
        max_length: Tokens of a window.
        stripped: How many tokens at the start and at the end of each text are left out.
        framed: The tokens to put before and after each window. A text without other tokens has no window.
    """
    before, after = (np.asarray(tokens, dtype=encoded.ids.dtype) for tokens in framed)
    room = max_length - len(before) - len(after)
    if room < 1:
        raise UserError(f"data.max_length {max_length} leaves no room for text beside the special tokens; raise it")
    parts: list[np.ndarray] = []
    lengths: list[int] = []
    for start, end in zip(encoded.offsets + stripped[0], encoded.offsets[1:] - stripped[1], strict=False):
        count = -(-(end - start) // room)
        for window in np.array_split(encoded.ids[start:end], count) if count > 0 else ():
            parts += [before, window, after]
            lengths.append(len(before) + len(window) + len(after))
    ids = np.concatenate(parts) if parts else encoded.ids[:0]
    return Encoded(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def unigram_entropy(counts: np.ndarray, special: list[int]) -> float:
    """Nats per token of a model that knows how frequent each token is, and no context."""
    counts = counts.copy()
    counts[special] = 0
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
