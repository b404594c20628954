"""`TransEvolveForTokenClassification`: a label for every token."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import TokenClassifierOutput

from ...evolution.feedforward import GlorotLinear
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..loss import smoothed_cross_entropy
from .labelled import LabelledHead


class TokenClassification(LabelledHead):
    """`labels` are (batch, length), -100 where a token has none."""

    output_class = TokenClassifierOutput
    head: GlorotLinear

    def _logits(self, x: Any, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        return self.head(x)

    def _loss(self: Any, logits: Any, labels: Tensor, count: Tensor | int | None) -> Tensor:
        return smoothed_cross_entropy(logits, labels, self.config.label_smoothing, count)


class TransEvolveForTokenClassification(TokenClassification, TransEvolvePreTrainedModel):
    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.head = GlorotLinear(config.hidden_size, config.num_labels or 1)
        self.post_init()
