"""`TransEvolveModel`, the encoder, and the base of all TransEvolve models."""

import copy
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple

from ..evolution.attention import EvolvedAttention
from ..evolution.block import BlockOptions
from ..evolution.feedforward import RotationLinear
from ..evolution.stack import EvolvedEncoder
from .base import TextModel, as_tuple
from .cache import TransEvolveCache
from .config import TransEvolveConfig
from .embedding import token_embedding
from .inputs import embed, key_padding_mask


class TransEvolvePreTrainedModel(TextModel):
    """Initialization, rotations and loading, for every head."""

    config: TransEvolveConfig
    config_class = TransEvolveConfig
    base_model_prefix = "model"
    _no_split_modules = ["EncoderBlock", "DecoderBlock"]  # noqa: RUF012
    initialized = (*TextModel.initialized, EvolvedAttention, RotationLinear)

    def __init__(self, config: TransEvolveConfig, *args, **kwargs):
        config.validate()
        drawn = config.drawn_checksum()
        if config.rotation_checksum is None and drawn is not None:
            config = copy.deepcopy(config)
            config.rotation_checksum = drawn
        super().__init__(config, *args, **kwargs)
        if config.rotation_checksum != drawn:
            raise ValueError(
                f"rotation checksum mismatch: the checkpoint was trained with rotations {config.rotation_checksum},"
                f" but rotation_seed={config.rotation_seed} draws {drawn} here, which is a different model."
                " Restore the seed and shape it was saved with; for a new model set rotation_checksum=None"
            )

    def encode(self, *inputs: Any) -> BaseModelOutput:
        return self.model(*inputs, return_dict=True)


class TransEvolveModel(TransEvolvePreTrainedModel):
    """The encoder: token ids in, one vector per token out.

    It is causal if `config.is_decoder`; `past_key_values` may then contain earlier tokens.

    `hidden_states` are X^l before each depth, and the output; `attentions` has one matrix per depth.
    """

    _key_mapping = {r"^encoder\.(embedding|encoder)\.": r"\1."}  # noqa: RUF012

    def __init__(self, config: TransEvolveConfig):
        super().__init__(config)
        config = self.config
        self.embedding = token_embedding(config)
        self.encoder = EvolvedEncoder.from_options(BlockOptions.of(config, config.block_depth), config.num_blocks)
        self.post_init()

    def left_out(self) -> tuple[str, ...]:
        return ("decoder.",) if self.config.is_encoder_decoder else ()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        position_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        past_key_values: TransEvolveCache | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        self.check_keywords(kwargs)
        trace = self.new_trace(output_hidden_states, output_attentions)
        start, streams = (0, None) if past_key_values is None else (past_key_values.length, past_key_values.streams)
        x = embed(self.embedding, input_ids, inputs_embeds, start, position_ids=position_ids)
        shape = (x.shape[0], start + x.shape[1])
        mask = key_padding_mask(self.embedding, input_ids, attention_mask, shape, start)
        y = self.encoder(x, mask, causal=self.config.is_decoder, trace=trace, streams=streams)
        if trace is not None:
            trace.enter(y)
        return BaseModelOutput(
            last_hidden_state=y,
            hidden_states=as_tuple(trace and trace.hidden_states),  # pyright: ignore[reportArgumentType]
            attentions=as_tuple(trace and trace.attentions),  # pyright: ignore[reportArgumentType]
        )
