"""`TransEvolveForSequenceClassification`: masked mean over the encoder's output, layer norm, linear head."""

from torch import Tensor
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..inputs import ignored_tokens
from ..loss import classification_loss
from ..pooling import pooling_head


class TransEvolveForSequenceClassification(TransEvolvePreTrainedModel):
    """Classification into any number of labels: single-label, multi-label (float labels), regression (one label)."""

    accepts_loss_kwargs = True

    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(config)
        self.head = pooling_head(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs,
    ) -> SequenceClassifierOutput:
        encoded = self.model(
            input_ids, attention_mask, inputs_embeds, output_hidden_states, output_attentions, return_dict=True
        )
        x = encoded.last_hidden_state
        padding = ignored_tokens(self.model.embedding, input_ids, attention_mask, (x.shape[0], x.shape[1]))
        logits = self.head(x, padding, input_ids)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config.problem_type, num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states, attentions=encoded.attentions
        )


AutoModelForSequenceClassification.register(TransEvolveConfig, TransEvolveForSequenceClassification, exist_ok=True)
