"""`TransEvolveForTokenClassification`: a label for every token."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from ...evolution.feedforward import GlorotLinear
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..loss import smoothed_cross_entropy


class TokenClassification:
    """`labels` are (batch, length), -100 where a token has none."""

    accepts_loss_kwargs = True
    head: GlorotLinear

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
    ) -> TokenClassifierOutput:
        self.check_keywords(kwargs)
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions
        )
        logits = self.head(encoded.last_hidden_state)
        loss = None
        if labels is not None:
            loss = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        return TokenClassifierOutput(
            loss=loss,  # pyright: ignore[reportArgumentType]
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class TransEvolveForTokenClassification(TokenClassification, TransEvolvePreTrainedModel):
    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.head = GlorotLinear(config.hidden_size, config.num_labels or 1)
        self.post_init()
