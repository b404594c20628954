"""`TransEvolveForSequenceClassification`: masked mean over the encoder's output, layer norm, linear head."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from ...evolution.feedforward import GlorotLinear
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..inputs import padding_mask
from ..loss import classification_loss


def masked_mean(x: Float[Tensor, "batch n d"], padding: Bool[Tensor, "batch n"] | None) -> Float[Tensor, "batch d"]:
    """The mean over real tokens; zero for a sequence that has none."""
    if padding is None:
        return x.mean(1)
    real = (~padding)[..., None].to(x.dtype)
    return (x * real).sum(1) / real.sum(1).clamp(min=1)


class PoolingHead(nn.Module):
    """Masked mean, layer norm, linear: from token vectors to logits."""

    def __init__(self, hidden_size: int, num_labels: int, eps: float):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, eps=eps)
        self.classifier = GlorotLinear(hidden_size, num_labels)

    def forward(self, x: Float[Tensor, "batch n d"], padding: Tensor | None) -> Float[Tensor, "batch labels"]:
        return self.classifier(self.norm(masked_mean(x, padding)))


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
        logits = self.head(x, padding_mask(attention_mask, (x.shape[0], x.shape[1])))
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
        self.head = PoolingHead(config.hidden_size, config.num_labels or 1, config.resolved_eps)
        self.post_init()
