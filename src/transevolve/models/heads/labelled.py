"""The forward pass of heads that compute logits, and a loss if there are labels, from the encoder's output."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor
from transformers.utils.generic import ModelOutput, can_return_tuple


class LabelledHead:
    accepts_loss_kwargs = True
    output_class: ClassVar[type[ModelOutput]]

    @abstractmethod
    def _logits(self, x: Any, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor: ...

    @abstractmethod
    def _loss(self, logits: Any, labels: Tensor, count: Tensor | int | None) -> Tensor:
        """`count` is the number of labels in all parts of an accumulated batch."""

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
    ) -> ModelOutput:
        self.check_keywords(kwargs)
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions
        )
        logits = self._logits(encoded.last_hidden_state, input_ids, attention_mask)
        return self.output_class(
            loss=None if labels is None else self._loss(logits, labels, num_items_in_batch),
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )
