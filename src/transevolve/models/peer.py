"""Any system of `peers` as a Hugging Face classifier, with the embedding, head and loss of TransEvolve's own."""

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from ..evolution.block import Trace
from ..evolution.feedforward import GlorotLinear
from ..peers.base import Mixer
from ..peers.encoder import PeerEncoder
from .embedding import TokenEmbedding
from .encoder import as_tuple
from .heads.classification import PoolingHead
from .inputs import embed, padding_mask
from .loading import CheckedLoading
from .loss import classification_loss
from .peer_config import PeerConfig


class PeerForSequenceClassification(CheckedLoading):
    """Classification into any number of labels: single-label, multi-label (float labels), regression (one label)."""

    config: PeerConfig
    config_class = PeerConfig
    main_input_name = "input_ids"
    accepts_loss_kwargs = True
    supports_gradient_checkpointing = True
    _no_split_modules = ["PeerLayer", "MacaronLayer"]  # noqa: RUF012

    def __init__(self, config: PeerConfig):
        super().__init__(config)
        self.embedding = TokenEmbedding(config.vocab_size, config.hidden_size, config.embedding_dropout)
        self.encoder = PeerEncoder.from_settings(
            config.system, config, config.num_hidden_layers, config.max_position_embeddings, config.system_settings
        )
        self.head = PoolingHead(config.hidden_size, config.num_labels or 1, config.norm_eps)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (Mixer, GlorotLinear, TokenEmbedding)):
            module.reset_parameters()
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embedding = value

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
        if self.config.output_attentions if output_attentions is None else output_attentions:
            raise ValueError(
                f"system {self.config.system!r} shows no attentions: not every system has a matrix of them"
            )
        states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        trace = Trace(hidden_states=[]) if states else None
        x = embed(self.embedding, input_ids, inputs_embeds)
        padding = padding_mask(attention_mask, (x.shape[0], x.shape[1]))
        y = self.encoder(x, padding, trace=trace)
        if trace is not None:
            trace.enter(y)
        logits = self.head(y, padding)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config.problem_type, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=as_tuple(trace and trace.hidden_states))


AutoModelForSequenceClassification.register(PeerConfig, PeerForSequenceClassification, exist_ok=True)
