"""Causal language models, which predict the next token of a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig

from ..config.sampling import Sampling
from ..data.batching import IGNORED, Batches, Collator, padded
from ..data.corpus import CAUSAL, USES
from ..data.encoding import encode
from ..data.registry import Task
from .base import PIPELINE, Prediction, Where
from .language import LanguageKind
from .session import Session


@dataclass(frozen=True)
class GeneratedText(Prediction):
    """The prompt with its continuation, one per sample."""

    texts: list[str]

    def line(self) -> str:
        """One line per sample; line breaks in it become spaces."""
        return "\n".join(" ".join(text.splitlines()) for text in self.texts)

    def as_dict(self) -> dict[str, Any]:
        return {"prompt": self.text, "texts": self.texts}


class CausalCollator(Collator):
    """The tokens are their own labels; fillers have none."""

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super().__call__([{"input_ids": row["input_ids"]} for row in rows])
        fillers = torch.tensor([[row["labels"] == IGNORED] for row in rows])
        batch["labels"] = batch["input_ids"].masked_fill((batch["attention_mask"] == 0) | fillers, IGNORED)
        # The first token of a row has no context and is not counted.
        batch["labels"][:, 0] = IGNORED
        return batch


class Causal(LanguageKind):
    name = "causal"
    noun = "a causal language model"
    command = "generate"
    tasks: ClassVar[Mapping[str, Task]] = {
        "causal": Task("texts without labels: predict the next token", USES, CAUSAL.load, "causal")
    }
    head = "ForCausalLM"
    auto_class = AutoModelForCausalLM
    pipeline_tag = "text-generation"
    example = PIPELINE + 'write = pipeline("text-generation", model={name})\nwrite("a text that")'

    def collator(self, session: Session) -> CausalCollator:
        return CausalCollator(session.pad)

    def predicted(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return logits[:, :-1], labels[:, 1:]

    def predict(self, session: Session, texts: Sequence[str], where: Where, **options: Any) -> list[GeneratedText]:
        sampling: Sampling = options.get("sampling") or Sampling()
        tokenizer = session.tokenizer
        prompts = encode(tokenizer, texts, None, where).rows()
        found: list[list[str]] = [[] for _ in texts]
        tokens = max(session.batch_tokens // (sampling.samples * sampling.beam), 1)
        with session.inference(), torch.random.fork_rng():
            torch.manual_seed(sampling.seed)
            for batch in Batches([len(ids) + sampling.new_tokens for ids in prompts], tokens=tokens, shuffle=False):
                ids, mask = padded_left([prompts[i] for i in batch], session.pad)
                ids, mask = ids.to(session.device), mask.to(session.device)
                generate: Any = session.model.generate
                written = generate(ids, attention_mask=mask, pad_token_id=session.pad, **sampling.arguments())
                new = tokenizer.batch_decode(written[:, ids.shape[1] :], skip_special_tokens=True)
                for place, number in enumerate(batch):
                    added = new[place * sampling.samples : (place + 1) * sampling.samples]
                    found[number] = [texts[number] + text if texts[number] else text.lstrip() for text in added]
        return [GeneratedText(*pair) for pair in zip(texts, found, strict=True)]

    def description(self, config: PreTrainedConfig) -> str:
        return "continues a text"


def padded_left(sequences: Sequence[np.ndarray], value: int) -> tuple[Tensor, Tensor]:
    """Sequences padded on the left, and the mask of real entries."""
    ids, mask = padded([sequence[::-1] for sequence in sequences], value)
    return ids.flip(1), mask.flip(1)
