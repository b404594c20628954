"""Masks tokens at random, depending only on the seed, the epoch and the row."""

from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from ..data.batching import IGNORED, Collator, padded

MASKED, REPLACED = 0.8, 0.1


def masked_row(
    ids: np.ndarray, draw: np.random.Generator, special: np.ndarray, mask_id: int, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels): `share` of the tokens that are not special are labelled, at least one.

    Of these, 80 % are masked, 10 % are replaced by a random token, and 10 % are unchanged. `special` is a mask of the
    special tokens in the vocabulary.
    """
    chances = np.where(special[ids], np.inf, draw.random(len(ids)))
    chosen = chances < max(share, chances.min() + 1e-12) if len(ids) and chances.min() < np.inf else chances < 0
    fate, other = draw.random(len(ids)), draw.choice(np.flatnonzero(~special), len(ids))
    inputs = np.where(chosen & (fate < MASKED), mask_id, ids)
    inputs = np.where(chosen & (fate >= MASKED) & (fate < MASKED + REPLACED), other, inputs)
    return inputs, np.where(chosen, ids, IGNORED)


class MaskingCollator(Collator):
    """Masks each row independently; rows whose label is `IGNORED` are fillers without labelled tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, pad: int, share: float, seed: int, epoch: int = 0):
        super().__init__(pad)
        self.share, self.seed = share, seed
        self.mask_id: Any = tokenizer.mask_token_id
        self.special = np.zeros(len(tokenizer), dtype=bool)
        self.special[[token for token in tokenizer.all_special_ids if token != tokenizer.unk_token_id]] = True
        # Shared with persistent data loader workers.
        self.epoch = torch.tensor([epoch]).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        self.epoch[0] = epoch

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        inputs, labels = [], []
        for row in rows:
            ids = np.asarray(row["input_ids"], dtype=np.int64)
            masked, label = masked_row(ids, self._draw(ids), self.special, self.mask_id, self.share)
            inputs.append(masked)
            labels.append(label if row["labels"] != IGNORED else np.full_like(label, IGNORED))
        input_ids, mask = padded(inputs, self.pad_token_id)
        found = {"input_ids": input_ids, "attention_mask": mask, "labels": padded(labels, IGNORED)[0]}
        return {**found, "labelled_only": True}

    def _draw(self, ids: np.ndarray) -> np.random.Generator:
        key = f"{self.seed} {int(self.epoch)}".encode()
        digest = blake2b(ids.tobytes(), key=key, digest_size=16).digest()
        return np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
