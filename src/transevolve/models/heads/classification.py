"""`TransEvolveForSequenceClassification`: masked mean over the encoder's output, layer norm, linear head."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput

from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..inputs import key_padding_mask
from ..loss import classification_loss
from ..pooling import PoolingHead, pooling_head
from .labelled import LabelledHead


class SequenceClassification(LabelledHead):
    """Classification into any number of labels: single-label, multi-label (float labels), regression (one label)."""

    output_class = SequenceClassifierOutput
    head: PoolingHead

    def _logits(self: Any, x: Any, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        mask = key_padding_mask(self.get_input_embeddings(), input_ids, attention_mask, x.shape[:2])
        return self.head(x, mask, input_ids)

    def _loss(self: Any, logits: Any, labels: Tensor, count: Tensor | int | None) -> Tensor:
        return classification_loss(logits, labels, self.config.problem_type, self.config.label_smoothing, count)


class TransEvolveForSequenceClassification(SequenceClassification, TransEvolvePreTrainedModel):
    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.head = pooling_head(self.config)
        self.post_init()
