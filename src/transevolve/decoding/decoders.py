"""Decoding steps of beam search, for TransEvolve and for other encoder-decoders."""

from abc import ABC, abstractmethod
from typing import Any, cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from transformers import EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ..models.heads.seq2seq import TransEvolveForConditionalGeneration


class StepDecoder(ABC):
    """Decodes one token per row. Rows are sentences at first; the first `reorder` may expand each to several beams."""

    cache: Any

    @abstractmethod
    def advance(self, tokens: Tensor) -> Tensor:
        """Appends tokens to every row; returns the logits of the next token."""

    @abstractmethod
    def reorder(self, parents: Tensor) -> None:
        """Row i continues row `parents[i]` of the same sentence."""

    @abstractmethod
    def select(self, sentences: Tensor, beams: int) -> None:
        """Keeps only these sentences, with all their beams."""


class SharedSourceDecoder(StepDecoder):
    """TransEvolve: the source is stored once per sentence, and beams are reordered without copying their past."""

    def __init__(self, model: TransEvolveForConditionalGeneration, memory: Tensor, mask: Tensor | None, limit: int):
        self.model, self.cache = model, model.new_cache(limit)
        self.source = {"encoder_outputs": (memory,), "attention_mask": mask}

    def advance(self, tokens: Tensor) -> Tensor:
        out = self.model(decoder_input_ids=tokens, past_key_values=self.cache, return_dict=True, **self.source)
        self.source = {}
        return out.logits[:, -1]

    def reorder(self, parents: Tensor) -> None:
        self.cache.reorder_cache(parents)

    def select(self, sentences: Tensor, beams: int) -> None:
        self.cache.select(sentences, beams)


class RepeatedSourceDecoder(StepDecoder):
    """Any Hugging Face encoder-decoder, through its `forward`; the source is repeated for each beam."""

    def __init__(self, model: PreTrainedModel, memory: Tensor, mask: Tensor | None):
        self.model, self.memory, self.mask = model, memory, mask
        self.rows, self.cache = memory.shape[0], None

    def advance(self, tokens: Tensor) -> Tensor:
        out = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=cast(FloatTensor, self.memory)),
            attention_mask=self.mask,
            decoder_input_ids=tokens,
            past_key_values=self.cache,
            use_cache=True,
            return_dict=True,
        )
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def reorder(self, parents: Tensor) -> None:
        if len(parents) != self.rows or not isinstance(self.cache, EncoderDecoderCache):
            self._take(parents)
        else:
            self.cache.self_attention_cache.reorder_cache(cast(LongTensor, parents))

    def select(self, sentences: Tensor, beams: int) -> None:
        self._take((sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten())

    def _take(self, rows: Tensor) -> None:
        assert self.cache is not None
        self.cache.reorder_cache(rows)
        self.memory, self.rows = self.memory[rows], len(rows)
        self.mask = None if self.mask is None else self.mask[rows]


def decoder_for(model: PreTrainedModel, memory: Tensor, mask: Tensor | None, limit: int) -> StepDecoder:
    """Returns a decoder with one row per sentence of `memory`, for at most `limit` tokens per row."""
    if isinstance(model, TransEvolveForConditionalGeneration):
        return SharedSourceDecoder(model, memory, mask, limit)
    return RepeatedSourceDecoder(model, memory, mask)
