"""`TransEvolveForConditionalGeneration`: encoder and decoder, one embedding for source, target and logits."""

import copy
from typing import Any

from torch import Tensor
from transformers import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from ...evolution.block import BlockOptions
from ...evolution.linear import Linear
from ...evolution.reads import one_read
from ...evolution.stack import EvolvedDecoder
from ..base import as_tuple
from ..cache import TransEvolveCache
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..generation import CachedGeneration
from ..inputs import embed, padding_mask, shift_right
from ..loss import smoothed_cross_entropy


class TransEvolveForConditionalGeneration(CachedGeneration, TransEvolvePreTrainedModel, GenerationMixin):
    """Translation. `labels` are the target with its end token, not shifted, -100 at padding.

    `num_items_in_batch` is the number of tokens in all parts of an accumulated batch; each part's loss is its share.

    With `past_key_values`, `decoder_input_ids` are the next tokens. Without, a cache is made and returned if
    `use_cache` (by default `config.use_cache`, except in training and with labels). The decoder may have several rows,
    or beams, per row of the source.
    """

    accepts_loss_kwargs = True
    base_model_prefix = "encoder"

    _tied_weights_keys = {"lm_head.weight": "encoder.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig):
        config = copy.deepcopy(config)
        config.is_encoder_decoder = True
        super().__init__(config)
        config = self.config
        self.encoder = TransEvolveModel(config)
        options = BlockOptions.of(config, config.decoder_block_depth or config.block_depth)
        self.decoder = EvolvedDecoder(options, config.decoder_num_blocks or config.num_blocks)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        pad, start = self.config.pad_token_id, self.config.decoder_start_token_id
        if pad is None or start is None:
            raise ValueError("pad_token_id and decoder_start_token_id must be set to make decoder inputs from labels")
        return shift_right(labels, pad, start)

    def new_cache(self, max_length: int | None = None, sentences: int = 1) -> TransEvolveCache:
        """An empty cache; `max_length` is the largest length, if known. The source determines the sentences."""
        return TransEvolveCache(self.decoder.streams(max_length))

    def _expand_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, expand_size: int = 1, is_encoder_decoder: bool = True, input_ids: Tensor | None = None, **model_kwargs
    ) -> tuple[Tensor | None, dict[str, Any]]:
        """Only the decoder has a row per beam; the source keeps one row per sentence."""
        if expand_size > 1 and input_ids is not None:
            input_ids = input_ids.repeat_interleave(expand_size, dim=0)
        mask = model_kwargs.get("decoder_attention_mask")
        if expand_size > 1 and mask is not None:
            model_kwargs["decoder_attention_mask"] = mask.repeat_interleave(expand_size, dim=0)
        return input_ids, model_kwargs

    @can_return_tuple
    @one_read
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: TransEvolveCache | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        self.check_keywords(kwargs)
        cache = self.checked_cache(past_key_values, self.wants_cache(use_cache, labels))
        start = 0 if cache is None else cache.get_seq_length()
        inputs = (input_ids, attention_mask, inputs_embeds, None, output_hidden_states, output_attentions)
        encoded = self._encoded(encoder_outputs, start, *inputs)
        memory = encoded.last_hidden_state
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        y = embed(self.encoder.embedding, decoder_input_ids, decoder_inputs_embeds, start, prefix="decoder_")
        trace = self.new_trace(output_hidden_states, output_attentions)
        mask = padding_mask(decoder_attention_mask, (y.shape[0], start + y.shape[1]), "decoder_attention_mask")
        y = self.decoder(
            y,
            memory,
            None if mask is None else mask[:, start:],
            None if memory is None else padding_mask(attention_mask, memory.shape[:2]),
            trace=trace,
            state=cache,
        )
        if trace is not None:
            trace.enter(y)
        logits = self.lm_head(y)
        loss = None
        if labels is not None:
            loss = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,  # pyright: ignore[reportArgumentType]
            logits=logits,
            past_key_values=cache,  # pyright: ignore[reportArgumentType]
            decoder_hidden_states=as_tuple(trace and trace.hidden_states),  # pyright: ignore[reportArgumentType]
            decoder_attentions=as_tuple(trace and trace.attentions),  # pyright: ignore[reportArgumentType]
            cross_attentions=as_tuple(trace and trace.cross_attentions),  # pyright: ignore[reportArgumentType]
            encoder_last_hidden_state=memory,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )

    def _encoded(self, ready: BaseModelOutput | tuple[Tensor, ...] | None, start: int, *inputs) -> BaseModelOutput:
        """The encoder's output, given or computed; empty if the cache of earlier tokens already has the source."""
        if ready is not None:
            output: Any = ready
            return ready if isinstance(ready, BaseModelOutput) else BaseModelOutput(*output)
        return BaseModelOutput() if start else self.encoder(*inputs, return_dict=True)
