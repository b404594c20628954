"""`TransEvolveForSequenceClassification`: masked mean over the encoder's output, layer norm, linear head."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..inputs import key_padding_mask
from ..loss import classification_loss
from ..pooling import PoolingHead, pooling_head


class SequenceClassification:
    """Classification into any number of labels: single-label, multi-label (float labels), regression (one label)."""

    accepts_loss_kwargs = True
    head: PoolingHead

    @can_return_tuple
    def forward(
        self: Any,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        self.check_keywords(kwargs)
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions
        )
        x = encoded.last_hidden_state
        mask = key_padding_mask(self.get_input_embeddings(), input_ids, attention_mask, x.shape[:2])
        logits = self.head(x, mask, input_ids)
        loss = None
        if labels is not None:
            kind, smoothing = self.config.problem_type, self.config.label_smoothing
            loss = classification_loss(logits, labels, kind, smoothing, num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss,  # pyright: ignore[reportArgumentType]
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class TransEvolveForSequenceClassification(SequenceClassification, TransEvolvePreTrainedModel):
    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.head = pooling_head(self.config)
        self.post_init()
