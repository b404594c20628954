"""`TransEvolveForConditionalGeneration`: encoder and decoder, one embedding for source, target and logits."""

import copy

import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from ..evolution.encoder import EvolvedDecoder
from .configuration import TransEvolveConfig
from .encoder import TransEvolveModel, TransEvolvePreTrainedModel, as_tuple
from .inputs import embed, padding_mask
from .loss import smoothed_cross_entropy


def shift_right(labels: Tensor, pad: int, start: int) -> Tensor:
    """Labels as decoder input: the start token first, everything one place later, -100 as padding."""
    shifted = torch.cat([labels.new_full((labels.shape[0], 1), start), labels[:, :-1]], dim=1)
    return shifted.masked_fill(shifted == -100, pad)


class TransEvolveForConditionalGeneration(TransEvolvePreTrainedModel, GenerationMixin):
    """Translation. `labels` are the target with its end token, unshifted, -100 where padded.

    `num_items_in_batch`, the tokens of all parts of an accumulated batch, makes the loss of each part its share.
    """

    accepts_loss_kwargs = True

    _tied_weights_keys = {"lm_head.weight": "encoder.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig):
        config = copy.deepcopy(config)
        config.is_encoder_decoder = True
        super().__init__(config)
        self.encoder = TransEvolveModel(config)
        options = config.block_options(config.decoder_block_depth or config.block_depth)
        self.decoder = EvolvedDecoder(options, config.decoder_num_blocks or config.num_blocks)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        return self.encoder

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.embedding = value

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        pad, start = self.config.pad_token_id, self.config.decoder_start_token_id
        if pad is None or start is None:
            raise ValueError("pad_token_id and decoder_start_token_id must be set to make decoder inputs from labels")
        return shift_right(labels, pad, start)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        if encoder_outputs is None:
            encoded = self.encoder(
                input_ids, attention_mask, inputs_embeds, output_hidden_states, output_attentions, return_dict=True
            )
        elif isinstance(encoder_outputs, BaseModelOutput):
            encoded = encoder_outputs
        else:
            encoded = BaseModelOutput(*encoder_outputs)
        memory = encoded.last_hidden_state
        assert memory is not None
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        y = embed(self.encoder.embedding, decoder_input_ids, decoder_inputs_embeds, prefix="decoder_")
        trace = self._asks(output_hidden_states, output_attentions)
        y = self.decoder(
            y,
            memory,
            padding_mask(decoder_attention_mask, (y.shape[0], y.shape[1]), "decoder_attention_mask"),
            padding_mask(attention_mask, (memory.shape[0], memory.shape[1])),
            trace=trace,
        )
        if trace is not None:
            trace.enter(y)
        logits = self.lm_head(y)
        loss = None
        if labels is not None:
            loss = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            decoder_hidden_states=as_tuple(trace and trace.hidden_states),
            decoder_attentions=as_tuple(trace and trace.attentions),
            cross_attentions=as_tuple(trace and trace.cross_attentions),
            encoder_last_hidden_state=memory,
            encoder_hidden_states=encoded.hidden_states,
            encoder_attentions=encoded.attentions,
        )


AutoModelForSeq2SeqLM.register(TransEvolveConfig, TransEvolveForConditionalGeneration, exist_ok=True)
