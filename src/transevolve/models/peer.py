"""Systems of `peers` as Hugging Face models, with the embedding, heads and losses of TransEvolve's models."""

from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple

from ..evolution.feedforward import GlorotLinear
from ..evolution.linear import Linear
from ..peers.base import Mixer
from ..peers.encoder import PeerEncoder
from .base import TextModel, as_tuple
from .embedding import token_embedding
from .heads.classification import SequenceClassification
from .heads.masked import MaskedLanguageModel
from .heads.tokens import TokenClassification
from .inputs import embed, key_padding_mask
from .peer_config import PeerConfig
from .pooling import pooling_head


class PeerPreTrainedModel(TextModel):
    """Embedding and encoder of a system."""

    config: PeerConfig
    config_class = PeerConfig
    _no_split_modules = ["PeerLayer", "MacaronLayer"]  # noqa: RUF012
    initialized = (*TextModel.initialized, Mixer)

    def __init__(self, config: PeerConfig):
        config.validate()
        super().__init__(config)
        self.embedding = token_embedding(config)
        self.encoder = PeerEncoder.from_settings(
            config.system, config, config.num_hidden_layers, config.max_position_embeddings, config.system_settings
        )

    def encode(self, *inputs: Any) -> BaseModelOutput:
        input_ids, attention_mask, inputs_embeds, position_ids, *shown = inputs
        trace = self.new_trace(*shown)
        if trace is not None and trace.attentions is not None:
            raise ValueError(
                f"system {self.config.system!r} does not support output_attentions: not every system has an attention"
                " matrix"
            )
        x = embed(self.embedding, input_ids, inputs_embeds, position_ids=position_ids)
        mask = key_padding_mask(self.embedding, input_ids, attention_mask, x.shape[:2])
        y = self.encoder(x, mask, trace=trace)
        if trace is not None:
            trace.enter(y)
        states: Any = as_tuple(trace and trace.hidden_states)
        return BaseModelOutput(last_hidden_state=y, hidden_states=states)


class PeerModel(PeerPreTrainedModel):
    """The encoder: token ids in, one vector per token out."""

    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        self.check_keywords(kwargs)
        return self.encode(
            input_ids, attention_mask, inputs_embeds, position_ids, output_hidden_states, output_attentions
        )


class PeerForSequenceClassification(SequenceClassification, PeerPreTrainedModel):
    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.head = pooling_head(config)
        self.post_init()


class PeerForTokenClassification(TokenClassification, PeerPreTrainedModel):
    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.head = GlorotLinear(config.hidden_size, config.num_labels or 1)
        self.post_init()


class PeerForMaskedLM(MaskedLanguageModel, PeerPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "embedding.weight"}  # noqa: RUF012

    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size)
        self.post_init()
