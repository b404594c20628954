"""Masked language models, which predict masked tokens from the surrounding tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import TextData
from ..data.batching import IGNORED, Collator, padded
from ..data.corpus import MASKED, USES
from ..data.encoding import joined_ids
from ..data.registry import Task
from .base import PIPELINE, Prediction, Where
from .language import LanguageKind
from .masking import MaskingCollator
from .session import Session

BEST = 5
LABELLED = 0.15


@dataclass(frozen=True)
class FilledMasks(Prediction):
    """The most probable tokens and their probabilities for each mask of a text."""

    masks: list[dict[str, float]]

    def line(self) -> str:
        """The masks separated by tabs, the tokens of each by spaces."""
        found = [" ".join(f"{token} {share:.4f}" for token, share in mask.items()) for mask in self.masks]
        return "\t".join(found)

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "masks": self.masks}


class Masked(LanguageKind):
    name = "masked"
    noun = "a masked language model"
    tasks: ClassVar[Mapping[str, Task]] = {
        "masked": Task("texts without labels: predict masked tokens", USES, MASKED.load, "masked")
    }
    head = "ForMaskedLM"
    auto_class = AutoModelForMaskedLM
    pipeline_tag = "fill-mask"
    example = PIPELINE + 'fill = pipeline("fill-mask", model={name})\nfill("a [MASK] text")'

    def start(self, model: PreTrainedModel, recipe: Recipe, data: TextData) -> None:
        """Initialize the output bias with the log frequencies of tokens."""
        assert data.train is not None
        counts = np.bincount(joined_ids(data.train)[0], minlength=model.config.vocab_size) + 1.0
        with torch.no_grad():
            bias: Any = model.lm_head.bias  # pyright: ignore[reportAttributeAccessIssue]
            bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def collator(self, session: Session) -> MaskingCollator:
        training = session.recipe.training
        return MaskingCollator(session.tokenizer, session.pad, training.mask_share, training.seed)

    def scoring_collator(self, session: Session) -> Collator:
        return MaskingCollator(session.tokenizer, session.pad, session.recipe.training.mask_share, 0, -1)

    def sample_labels(self, ids: Tensor, config: PreTrainedConfig) -> dict[str, Any]:
        chances = torch.rand(ids.shape, generator=torch.Generator().manual_seed(0))
        return {"labels": ids.masked_fill(chances > LABELLED, IGNORED), "labelled_only": True}

    def predicted(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return logits, labels[labels != IGNORED]

    def predicted_share(self, session: Session) -> float:
        return max(session.recipe.training.mask_share, 0.01)

    def predict(self, session: Session, texts: Sequence[str], where: Where, **options: Any) -> list[FilledMasks]:
        rows, tokenizer = session.encode(texts, where).rows(), session.tokenizer
        found: list[FilledMasks] = []
        for number, (text, ids) in enumerate(zip(texts, rows, strict=True)):
            places = np.flatnonzero(ids == tokenizer.mask_token_id)
            if not len(places):
                raise UserError(f"{where(number)}: there is no {tokenizer.mask_token} to fill in this text; write one")
            batch, mask = padded([ids], session.pad)
            with session.inference():
                logits = session.model(batch.to(session.device), attention_mask=mask.to(session.device)).logits
            shares, best = logits[0, places].float().softmax(-1).topk(BEST)
            pairs = zip(best.tolist(), shares.tolist(), strict=True)
            named = [
                dict(zip(tokenizer.convert_ids_to_tokens(tokens), values, strict=True)) for tokens, values in pairs
            ]
            found.append(FilledMasks(text, named))
        return found

    def description(self, config: PreTrainedConfig) -> str:
        return "predicts masked tokens of a text"
