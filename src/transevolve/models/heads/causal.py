"""`TransEvolveForCausalLM`: the encoder with causal attention, and logits of each next token."""

import copy

from torch import Tensor
from transformers import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils.generic import can_return_tuple

from ...evolution.linear import Linear
from ..cache import TransEvolveCache
from ..config import TransEvolveConfig
from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel
from ..generation import CachedGeneration
from ..loss import smoothed_cross_entropy


class TransEvolveForCausalLM(CachedGeneration, TransEvolvePreTrainedModel, GenerationMixin):
    """`labels` are the tokens, -100 at padding: the logits of token i predict label i + 1, or `shift_labels[i]`.

    With `past_key_values` the tokens continue those in it, and `attention_mask` covers all of them. Without, a cache is
    made and returned if `use_cache` (by default `config.use_cache`, except in training and with labels).
    """

    accepts_loss_kwargs = True
    _tied_weights_keys = {"lm_head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig):
        config = copy.deepcopy(config)
        config.is_decoder = True
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def new_cache(self, max_length: int | None = None, sentences: int = 1) -> TransEvolveCache:
        return TransEvolveCache(self.model.encoder.streams(max_length), sentences)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: TransEvolveCache | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        logits_to_keep: int | Tensor = 0,
        shift_labels: Tensor | None = None,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        self.check_keywords(kwargs)
        targets = shift_labels
        if targets is None and labels is not None:
            targets = labels[:, 1:]
        cache = self.checked_cache(past_key_values, self.wants_cache(use_cache, targets))
        encoded = self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions, cache
        )
        y = encoded.last_hidden_state
        assert y is not None
        selected = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(y[:, selected])
        loss = None
        if targets is not None:
            smoothing, predicted = self.config.label_smoothing, logits[:, : targets.shape[1]]
            loss = smoothed_cross_entropy(predicted, targets, smoothing, num_items_in_batch)
        return CausalLMOutputWithPast(
            loss=loss,  # pyright: ignore[reportArgumentType]
            logits=logits,
            past_key_values=cache,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
        )
