"""Runs a model for scoring and prediction: batches rows and gathers outputs of all processes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import Recipe
from ..core.private import cpu_multiplies_bfloat16
from ..data.batching import Batches, Collator, RowStore
from ..data.encoding import Encoded, encode
from ..models.int8 import is_int8

LOGITS = 2**25


@dataclass
class Session:
    """A model with its tokenizer, on a device.

    Args:
        recipe: The settings of its training; their precision is also used for scoring and prediction.
        batch_tokens: Tokens per batch, with padding.
        truncated: The number of truncated texts so far.
        advance: Called with the number of rows done, to show progress.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    recipe: Recipe
    device: torch.device
    batch_tokens: int
    process: int = 0
    processes: int = 1
    truncated: int = 0
    advance: Callable[[int], object] = field(default=lambda count: None)

    @property
    def max_length(self) -> int:
        return min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings)

    def with_logits(self, share: float = 1.0) -> "Session":
        """A session with batches so small that the logits of this share of tokens need at most 128 MB."""
        most = max(1, round(LOGITS // self.model.config.vocab_size / share))
        return replace(self, batch_tokens=min(self.batch_tokens, most))

    @property
    def pad(self) -> int:
        """The padding id."""
        pad = self.tokenizer.pad_token_id
        return pad if isinstance(pad, int) else 0

    @contextmanager
    def inference(self) -> Iterator[None]:
        """Evaluation mode, no gradients, and the precision of training; the model's mode is restored.

        In a quantized model, everything that is not int8 is computed in bfloat16 if the CPU has instructions for it.
        """
        training, bf16 = self.model.training, self.recipe.training.precision == "bf16"
        bf16 = bf16 or (is_int8(self.model) and cpu_multiplies_bfloat16())
        self.model.eval()
        try:
            with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
                yield
        finally:
            self.model.train(training)

    def encode(self, texts: Sequence[str], where: Callable[[int], str]) -> Encoded:
        encoded = encode(self.tokenizer, texts, self.max_length, where)
        self.truncated += encoded.truncated
        return encoded

    def batches(self, rows: RowStore, collate: Collator) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Yield the batches of this process, with their row numbers (`~i` is a filler)."""
        dealt = {"process": self.process, "processes": self.processes}
        for numbers in Batches(rows.lengths, tokens=self.batch_tokens, shuffle=False, **dealt):
            batch = collate([rows[number] for number in numbers])
            yield numbers, {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in batch.items()}

    def outputs(
        self, rows: RowStore, collate: Collator, read: Callable[[Tensor], Tensor] = lambda logits: logits
    ) -> np.ndarray:
        """Apply `read` to the logits of each row; returns the rows of all processes, in order."""
        found: list[tuple[list[int], np.ndarray]] = []
        with self.inference():
            for numbers, batch in self.batches(rows, collate):
                batch.pop("labels", None)
                values = read(self.model(**batch).logits.float()).cpu().numpy()
                real = [place for place, number in enumerate(numbers) if number >= 0]
                found.append(([numbers[place] for place in real], values[real]))
                self.advance(len(real))
        shares = [pair for share in self.gather(found) for pair in share]
        outputs = np.zeros((len(rows), *shares[0][1].shape[1:]), dtype=np.float64)
        for numbers, values in shares:
            outputs[numbers] = values
        return outputs

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in order."""
        if self.processes == 1:
            return [value]
        values: list[Any] = [None] * self.processes
        distributed.all_gather_object(values, value)
        return values
