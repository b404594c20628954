"""Base of all models, TransEvolve's and peers': initialization, checked keywords, checked loading."""

from contextvars import ContextVar
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from ..core.errors import nearest
from ..evolution.block import Trace
from ..evolution.feedforward import GlorotLinear
from .embedding import Segments, TokenEmbedding
from .pooling import PoolingHead

# Arguments that tokenizers, pipelines, PEFT and `generate` pass to every model; they have no effect here.
WITHOUT_EFFECT = {"token_type_ids", "cache_position", "logits_to_keep", "use_cache", "task_ids"}
HEADS = ("head.", "lm_head.")
_MAY_DIFFER = ContextVar("may_differ", default=False)  # whether weights of other shapes are accepted


class TextModel(PreTrainedModel):
    """A `PreTrainedModel` on tokens that rejects unknown arguments and weights of other models.

    Modules of the classes in `initialized` have a `reset_parameters`.
    """

    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _input_embed_layer = "embedding"
    _key_mapping: dict[str, str] | None = None
    initialized: ClassVar[tuple[type[nn.Module], ...]] = (GlorotLinear, TokenEmbedding, Segments)

    def encode(self, *inputs: Any) -> BaseModelOutput:
        """Token vectors for a head, from the arguments of the encoder's `forward` in their order."""
        raise NotImplementedError

    def check_keywords(self, keywords: dict[str, object]) -> None:
        """Raises TypeError for an argument of `forward` that nothing reads."""
        for name, value in keywords.items():
            if value is not None and name not in WITHOUT_EFFECT:
                near = nearest(name, signature(self.forward).parameters)
                raise TypeError(f"{type(self).__name__}.forward() has no argument {name!r}{near}")

    def new_trace(self, output_hidden_states: bool | None, output_attentions: bool | None) -> Trace | None:
        """A trace if hidden states or attentions are requested, by argument or by configuration."""
        states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        attentions = self.config.output_attentions if output_attentions is None else output_attentions
        if not states and not attentions:
            return None
        return Trace([] if states else None, [] if attentions else None, [] if attentions else None)

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (*self.initialized, PoolingHead)):
            module.reset_parameters()  # pyright: ignore[reportCallIssue]
        if isinstance(module, self.initialized) and self.config.initializer_range is not None:
            for name, weight in module.named_parameters():
                if weight.ndim > 1 and name != "depth_weight":  # the rows of depth_weight are separate vectors
                    nn.init.normal_(weight, std=self.config.initializer_range)
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
        self._init_output(module)

    def _init_output(self, module: nn.Module) -> None:
        """Initializes `lm_head` unless it is the embedding matrix."""
        if module is not getattr(self, "lm_head", None) or not isinstance(module, nn.Linear):
            return
        if not self.config.tie_word_embeddings:
            std = getattr(self.config, "initializer_range", None) or module.in_features**-0.5
            nn.init.normal_(module.weight, std=std)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

    @classmethod
    def from_pretrained(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, pretrained_model_name_or_path, *args, output_loading_info: bool = False, **kwargs
    ):
        """As in `PreTrainedModel`, but weights that do not fit are an error, not newly initialized.

        Only a task head may be missing (an encoder's checkpoint made into a classifier) or unused.
        """
        kwargs.setdefault("key_mapping", cls._key_mapping)
        outer = _MAY_DIFFER.set(bool(kwargs.get("ignore_mismatched_sizes")))
        try:
            model, info = super().from_pretrained(  # pyright: ignore[reportGeneralTypeIssues]
                pretrained_model_name_or_path, *args, output_loading_info=True, **kwargs
            )
        finally:
            _MAY_DIFFER.reset(outer)
        unfit = {
            kind: sorted(key for key in map(str, info.get(f"{kind}_keys") or ()) if not key.startswith(exempt))
            for kind, exempt in (("missing", HEADS), ("unexpected", (*HEADS, *model.left_out())))
        }
        if any(unfit.values()):
            listed = "; ".join(f"{kind} {', '.join(keys[:3])}" for kind, keys in unfit.items() if keys)
            raise ValueError(
                f"{pretrained_model_name_or_path} does not contain the weights of this {cls.__name__} ({listed}):"
                " its config.json belongs to another model"
            )
        return (model, info) if output_loading_info else model

    def _move_missing_keys_from_meta_to_device(self, missing_keys: Any, *args: Any, **kwargs: Any) -> None:
        """Raises ValueError for missing weights and weights of another shape before memory is allocated for them: an
        untrusted config.json may describe a model that does not fit in memory."""
        lacking = missing_keys - self.all_tied_weights_keys.keys()
        lacking = sorted(key for key in lacking if not key.startswith(HEADS))
        if lacking and not _MAY_DIFFER.get():
            raise ValueError(
                f"the checkpoint does not contain the weights of this {type(self).__name__} (missing or of another"
                f" shape: {', '.join(lacking[:3])}): its config.json belongs to another model"
            )
        super()._move_missing_keys_from_meta_to_device(missing_keys, *args, **kwargs)

    def left_out(self) -> tuple[str, ...]:
        """Prefixes of weights in a checkpoint, besides heads, that this model does not use."""
        return ()


def as_tuple(collected: list[Tensor] | None) -> tuple[Tensor, ...] | None:
    return None if collected is None else tuple(collected)
