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
from .embedding import TokenEmbedding, token_embedding
from .encoder import as_tuple, learned_matrices
from .inputs import embed, ignored_tokens
from .loading import CheckedLoading
from .loss import classification_loss
from .peer_config import PeerConfig
from .pooling import PoolingHead, pooling_head


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
        self.embedding = token_embedding(config)
        self.encoder = PeerEncoder(
            config.system,
            config.hidden_size,
            config.num_attention_heads,
            config.num_hidden_layers,
            config.intermediate_size,
            max_length=config.max_position_embeddings,
            dropout=config.dropout,
            layer_norm_eps=config.layer_norm_eps,
            settings=config.system_settings,
        )
        self.head = pooling_head(config)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (Mixer, GlorotLinear, TokenEmbedding)):
            module.reset_parameters()
            if self.config.initializer_range is not None:
                for weight in learned_matrices(module):
                    nn.init.normal_(weight, std=self.config.initializer_range)
        elif isinstance(module, PoolingHead):
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
        padding = ignored_tokens(self.embedding, input_ids, attention_mask, (x.shape[0], x.shape[1]))
        y = self.encoder(x, padding, trace=trace)
        if trace is not None:
            trace.enter(y)
        logits = self.head(y, padding, input_ids)
        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config.problem_type, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=as_tuple(trace and trace.hidden_states))


AutoModelForSequenceClassification.register(PeerConfig, PeerForSequenceClassification, exist_ok=True)
