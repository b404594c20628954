"""Translations of sentences, in their order; batches are sorted by length so that little is padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from .beam import BeamOptions, beam_search


@dataclass(frozen=True)
class Translated:
    """A translation and its score, the length-penalised log-probability."""

    text: str
    score: float


def translate_ids(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    sources: Sequence[Sequence[int] | np.ndarray],
    options: BeamOptions,
    batch_tokens: int = 4096,
) -> list[list[Translated]]:
    """The n best translations of each source; an empty source has an empty translation."""
    found: list[list[Translated]] = [[Translated("", 0.0)] for _ in sources]
    special = len(tokenizer("")["input_ids"])
    for batch in batches_by_length([len(ids) for ids in sources], batch_tokens, shortest=special + 1):
        longest = max(len(sources[i]) for i in batch)
        ids = torch.full((len(batch), longest), cast(int, tokenizer.pad_token_id or 0), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, number in enumerate(batch):
            own = torch.as_tensor(np.asarray(sources[number], dtype=np.int64))
            ids[row, : len(own)], mask[row, : len(own)] = own, 1
        beams = beam_search(model, ids.to(model.device), mask.to(model.device), options)
        for number, hypotheses in zip(batch, beams, strict=True):
            texts = tokenizer.batch_decode([h.ids for h in hypotheses], skip_special_tokens=True)
            found[number] = [Translated(text, h.score) for text, h in zip(texts, hypotheses, strict=True)]
    return found


def batches_by_length(lengths: Sequence[int], tokens: int, shortest: int) -> Iterator[list[int]]:
    """Row numbers from long to short, at most `tokens` per batch with padding; rows below `shortest` are left out."""
    order = sorted((i for i, length in enumerate(lengths) if length >= shortest), key=lambda i: -lengths[i])
    while order:
        size = max(1, tokens // lengths[order[0]])
        yield order[:size]
        order = order[size:]
