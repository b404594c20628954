"""One step of a model for the rows of a beam search: what differs between TransEvolve and other encoder-decoders."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ..models.heads.seq2seq import TransEvolveForConditionalGeneration


class Decoder(ABC):
    """Rows are sentences at first; the first `reorder` may make several of each, its beams."""

    cache: Any

    @abstractmethod
    def advance(self, tokens: Tensor) -> Tensor:
        """Takes in the next tokens of every row; logits of the one that follows."""

    @abstractmethod
    def reorder(self, parents: Tensor) -> None:
        """Row i goes on from row `parents[i]`, of the same sentence."""

    @abstractmethod
    def keep(self, sentences: Tensor, beams: int) -> None:
        """Drops all but these sentences, each with all its beams."""


class EvolvedDecoder(Decoder):
    """The source is kept once a sentence, and beams change places without moving what they remember."""

    def __init__(self, model: TransEvolveForConditionalGeneration, memory: Tensor, mask: Tensor | None, limit: int):
        self.model, self.cache = model, model.new_cache(limit)
        self.source = {"encoder_outputs": (memory,), "attention_mask": mask}

    def advance(self, tokens: Tensor) -> Tensor:
        out = self.model(decoder_input_ids=tokens, past_key_values=self.cache, return_dict=True, **self.source)
        self.source = {}
        return out.logits[:, -1]

    def reorder(self, parents: Tensor) -> None:
        self.cache.reorder_cache(parents)

    def keep(self, sentences: Tensor, beams: int) -> None:
        self.cache.keep_sentences(sentences, beams)


class AnyDecoder(Decoder):
    """Any encoder-decoder of Hugging Face by its public forward; its source is repeated for each beam."""

    def __init__(self, model: PreTrainedModel, memory: Tensor, mask: Tensor | None):
        self.model, self.memory, self.mask = model, memory, mask
        self.rows, self.cache = memory.shape[0], None

    def advance(self, tokens: Tensor) -> Tensor:
        out = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self.memory),
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
            self.cache.self_attention_cache.reorder_cache(parents)

    def keep(self, sentences: Tensor, beams: int) -> None:
        self._take((sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten())

    def _take(self, rows: Tensor) -> None:
        assert self.cache is not None
        self.cache.reorder_cache(rows)
        self.memory, self.rows = self.memory[rows], len(rows)
        self.mask = None if self.mask is None else self.mask[rows]


def decoder_for(model: PreTrainedModel, memory: Tensor, mask: Tensor | None, limit: int) -> Decoder:
    """A decoder of one row for each sentence of `memory`; no row will grow beyond `limit` tokens."""
    if isinstance(model, TransEvolveForConditionalGeneration):
        return EvolvedDecoder(model, memory, mask, limit)
    return AnyDecoder(model, memory, mask)
