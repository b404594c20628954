"""Builds the model of a recipe, for any system."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import MARIAN, OURS, ModelOptions
from ..core.errors import UserError, suggestion
from ..data.pair_tokenizers import is_paired, separator_id
from ..models.build import build_marian, build_peer, build_transevolve
from ..models.heads import MODELS, PEER
from ..models.settings import PeerSettings
from ..peers import SYSTEMS

TRANSLATES = "ForConditionalGeneration"
LAYERS = {"num_blocks", "block_depth"}
CHOICES = {"system", "variant", "size", "settings", "initialization", "vectors", "start"}
NOT_MARIANS = {"embedding_dropout", "initializer_range", "position_scale", "pooling", "bigrams", "drop_unseen"}


def build_model(
    head: str,
    options: ModelOptions,
    tokenizer: PreTrainedTokenizerFast,
    max_length: int,
    labels: Sequence[str] = (),
    **facts: Any,
) -> PreTrainedModel:
    """Build a model with a head of `transevolve.models.heads`; `facts` are fields of its configuration."""
    tokens = {name: getattr(tokenizer, name) for name in ("pad_token_id", "bos_token_id", "eos_token_id")}
    facts |= {"vocab_size": len(tokenizer), "max_position_embeddings": max_length, **tokens}
    if is_paired(tokenizer):
        facts |= {"type_vocab_size": 2, "sep_token_id": separator_id(tokenizer)}
    if labels:
        facts["id2label"] = dict(enumerate(labels))
        facts["label2id"] = {label: number for number, label in enumerate(labels)}
    return _build(head, options, facts)


def check_model(head: str, options: ModelOptions) -> None:
    """Raise an error for invalid settings, by building the model on the meta device."""
    with torch.device("meta"):
        _build(head, options, {})


def possible_shape(options: ModelOptions) -> ModelOptions:
    """If only one of width and number of heads is set, choose a valid value for the other."""
    width, heads = options.hidden_size, options.num_attention_heads
    if options.size is not None or (width is None) == (heads is None):
        return options
    if width is None:
        return replace(options, hidden_size=64 * heads)
    return replace(options, num_attention_heads=1 if width % 64 else width // 64)


def _build(head: str, options: ModelOptions, facts: dict[str, Any]) -> PreTrainedModel:
    _require_head(options.system, head)
    size = options.size or "small"
    settings = {name: value for name, value in asdict(options).items() if value is not None and name not in CHOICES}
    try:
        if options.is_ours:
            if options.settings is not None:
                raise UserError("model.settings is for other systems: TransEvolve has keys such as model.dropout")
            return build_transevolve(head, options.label, size, **{**facts, **settings})
        layers = settings.get("num_blocks", 1) * settings.get("block_depth", 6)
        used = {name: settings[name] for name in shared_settings(options.system) & settings.keys() - LAYERS}
        if options.system == MARIAN:
            return build_marian(size, **facts, **used, num_hidden_layers=layers)
        more = {"num_hidden_layers": layers, "system_settings": options.settings}
        return build_peer(head, options.system, size, **facts, **used, **more)
    except (ValueError, StrictDataclassError) as error:
        raise UserError(f"model: {error.__cause__ or error}") from error


def unused(options: ModelOptions) -> list[str]:
    """The settings that are set, but that the system does not use."""
    if options.is_ours:
        return []
    used = {
        *CHOICES - {"variant", "settings"},
        *shared_settings(options.system),
        *({"settings"} if options.system != MARIAN else ()),
    }
    return [f"model.{name}" for name, value in asdict(options).items() if value is not None and name not in used]


def shared_settings(system: str) -> set[str]:
    """The settings that a system other than TransEvolve shares with it."""
    shared = {f.name for f in fields(PeerSettings)} | LAYERS
    return shared - NOT_MARIANS if system == MARIAN else shared


def _require_head(system: str, head: str) -> None:
    """Raise an error if the system does not exist or does not support the head."""
    heads = {model.name.removeprefix("Peer") for model in MODELS if model.model_type == PEER}
    known = [OURS, *([MARIAN] if head == TRANSLATES else []), *(SYSTEMS if head in heads else [])]
    if system in known:
        return
    if system in SYSTEMS or system == MARIAN:
        raise UserError(f"model.system {system!r} has no model {head!r}: choose from {', '.join(known)}")
    raise UserError(f"unknown model.system {system!r}" + suggestion(system, known))
