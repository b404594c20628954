"""`TransEvolveForMaskedLM`: logits of the vocabulary for every token, by the embedding matrix and a bias."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils.generic import can_return_tuple

from ...evolution.linear import Linear
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..loss import smoothed_cross_entropy


class MaskedLanguageModel:
    """`labels` are the original tokens at masks, -100 everywhere else.

    With `labelled_only`, `logits` are only those of labelled tokens, (tokens, vocabulary): few tokens are masked, and
    the logits of all would take most of the time and memory of a training step.
    """

    accepts_loss_kwargs = True

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
        labelled_only: bool = False,
        **kwargs,
    ) -> MaskedLMOutput:
        self.check_keywords(kwargs)
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions
        )
        y = encoded.last_hidden_state
        if labelled_only:
            if labels is None:
                raise ValueError("labelled_only needs labels")
            real = labels != -100
            y, labels = y[real], labels[real]
        logits = self.lm_head(y)
        loss = None
        if labels is not None:
            loss = smoothed_cross_entropy(logits, labels, self.config.label_smoothing, num_items_in_batch)
        return MaskedLMOutput(
            loss=loss,  # pyright: ignore[reportArgumentType]
            logits=logits,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )


class TransEvolveForMaskedLM(MaskedLanguageModel, TransEvolvePreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self.post_init()
