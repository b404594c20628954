"""Any system of `peers` as a Hugging Face classifier, with the embedding, head and loss of TransEvolve's own."""

from typing import Any, ClassVar

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from ..errors import suggestion
from ..evolution.block import Trace
from ..evolution.feedforward import FullFeedForward
from ..peers import check_settings
from ..peers.base import Mixer
from ..peers.encoder import PeerEncoder
from .classification import PoolingHead
from .configuration import SHAPE, SIZES, require_positive, require_share
from .embedding import TokenEmbedding
from .encoder import as_tuple
from .inputs import embed, padding_mask
from .loss import classification_loss


@strict
class PeerConfig(PreTrainedConfig):
    """What a peer is: the name of its `system`, the shape all systems share, and `system_settings` of its own.

    `max_position_embeddings` is a hard limit only for systems whose parameters depend on the length.
    """

    model_type: ClassVar[str] = "transevolve-peer"
    attribute_map: ClassVar[dict[str, str]] = {"d_model": "hidden_size"}

    system: str = "transformer"
    vocab_size: int = 30522
    hidden_size: int = 256
    num_attention_heads: int = 8
    intermediate_size: int = 1024
    num_hidden_layers: int = 6
    dropout: float = 0.1
    embedding_dropout: float = 0.0
    layer_norm_eps: float = 1e-5
    max_position_embeddings: int = 512
    pad_token_id: int | None = 0
    system_settings: dict[str, Any] | None = None

    def validate_sizes(self):
        """Part of the validation that `@strict` runs."""
        require_positive(self, *SHAPE, "num_hidden_layers")
        require_share(self, "dropout", "embedding_dropout")

    def validate_system(self):
        """Part of the validation that `@strict` runs."""
        check_settings(self.system, self.system_settings or {})

    @classmethod
    def of_size(cls, system: str, size: str = "small", **overrides) -> "PeerConfig":
        """A system in one of the paper's sizes: small (d=256) or base (d=512)."""
        if size not in SIZES:
            raise ValueError(f"unknown size {size!r}" + suggestion(size, list(SIZES)))
        return cls(**{"system": system, **SIZES[size], **overrides})


class PeerForSequenceClassification(PreTrainedModel):
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
        self.head = PoolingHead(config.hidden_size, config.num_labels or 1, config.layer_norm_eps)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (Mixer, FullFeedForward, TokenEmbedding, PoolingHead)):
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


AutoConfig.register("transevolve-peer", PeerConfig, exist_ok=True)
AutoModelForSequenceClassification.register(PeerConfig, PeerForSequenceClassification, exist_ok=True)
