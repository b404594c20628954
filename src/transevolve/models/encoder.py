"""`TransEvolveModel`, the encoder, and what all TransEvolve models share."""

import torch
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple

from ..evolution.attention import EvolvedAttention
from ..evolution.block import Trace
from ..evolution.feedforward import GlorotLinear, RotationLinear
from ..evolution.stack import EvolvedEncoder
from .config import TransEvolveConfig
from .embedding import TokenEmbedding, token_embedding
from .inputs import embed, ignored_tokens
from .loading import CheckedLoading
from .pooling import PoolingHead


class TransEvolvePreTrainedModel(CheckedLoading):
    """Initialisation, rotations and loading, the same for every head."""

    config: TransEvolveConfig
    config_class = TransEvolveConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ["EncoderBlock", "DecoderBlock"]  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig, *args, **kwargs):
        super().__init__(config, *args, **kwargs)
        drawn = config.drawn_checksum()
        if config.rotation_checksum is None:
            config.rotation_checksum = drawn
        elif config.rotation_checksum != drawn:
            raise ValueError(
                f"rotation checksum mismatch: the checkpoint was trained with rotations {config.rotation_checksum},"
                f" but rotation_seed={config.rotation_seed} draws {drawn} here, which would be another model."
                " Restore the seed and shape it was saved with; for a new model set rotation_checksum=None"
            )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (EvolvedAttention, GlorotLinear, RotationLinear, TokenEmbedding)):
            module.reset_parameters()
            if self.config.initializer_range is not None:
                for weight in learned_matrices(module):
                    nn.init.normal_(weight, std=self.config.initializer_range)
        elif isinstance(module, PoolingHead):
            module.reset_parameters()
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    def _asks(self, output_hidden_states: bool | None, output_attentions: bool | None) -> Trace | None:
        """A trace if hidden states or attentions are wanted, by argument or by configuration."""
        states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        attentions = self.config.output_attentions if output_attentions is None else output_attentions
        if not states and not attentions:
            return None
        return Trace([] if states else None, [] if attentions else None, [] if attentions else None)


class TransEvolveModel(TransEvolvePreTrainedModel):
    """The encoder: token ids in, one vector a token out.

    `hidden_states` are X^l entering each depth, and the output; `attentions` one matrix a depth.
    """

    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        self.embedding = token_embedding(config)
        self.encoder = EvolvedEncoder.from_options(config.block_options(config.block_depth), config.num_blocks)
        self.post_init()

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
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        trace = self._asks(output_hidden_states, output_attentions)
        x = embed(self.embedding, input_ids, inputs_embeds)
        padding = ignored_tokens(self.embedding, input_ids, attention_mask, (x.shape[0], x.shape[1]))
        y = self.encoder(x, padding, trace=trace)
        if trace is not None:
            trace.enter(y)
        return BaseModelOutput(
            last_hidden_state=y,
            hidden_states=as_tuple(trace and trace.hidden_states),
            attentions=as_tuple(trace and trace.attentions),
        )


def learned_matrices(module: nn.Module) -> list[Tensor]:
    """All but biases, singular values, and the depths' weights, which are vectors."""
    return [weight for name, weight in module.named_parameters() if weight.ndim > 1 and name != "depth_weight"]


def as_tuple(collected: list[Tensor] | None) -> tuple[Tensor, ...] | None:
    return None if collected is None else tuple(collected)


AutoModel.register(TransEvolveConfig, TransEvolveModel, exist_ok=True)
