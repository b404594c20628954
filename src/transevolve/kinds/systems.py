"""Builds the model of a recipe, for any system."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import MARIAN, OURS, ModelOptions
from ..core.errors import UserError, suggestion
from ..data.pair_tokenizers import is_paired, separator_id
from ..models.build import build_marian, build_peer, build_transevolve
from ..models.heads import PEER, TRANSEVOLVE, heads_of
from ..models.settings import PeerSettings
from ..peers import SYSTEMS

TRANSLATES = "ForConditionalGeneration"
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
    family = _with_head(options.system, head)
    values = asdict(options).items()
    settings = {name: value for name, value in values if value is not None and name in family.uses - CHOICES}
    try:
        return family.build(head, options, options.size or "small", {**facts, **settings})
    except (ValueError, StrictDataclassError) as error:
        raise UserError(f"model: {error.__cause__ or error}") from error


def _build_ours(head: str, options: ModelOptions, size: str, settings: dict[str, Any]) -> PreTrainedModel:
    if options.settings is not None:
        raise UserError("model.settings is for other systems: TransEvolve has keys such as model.dropout")
    return build_transevolve(head, options.label, size, **settings)


def _build_marian(head: str, options: ModelOptions, size: str, settings: dict[str, Any]) -> PreTrainedModel:
    return build_marian(size, **_in_layers(settings))


def _build_peer(head: str, options: ModelOptions, size: str, settings: dict[str, Any]) -> PreTrainedModel:
    return build_peer(head, options.system, size, system_settings=options.settings, **_in_layers(settings))


def _in_layers(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a system without blocks."""
    layers = settings.pop("num_blocks", 1) * settings.pop("block_depth", 6)
    return {**settings, "num_hidden_layers": layers}


@dataclass(frozen=True)
class Family:
    """Systems whose models are built in the same way: their names, heads, and the settings of `model` that they use."""

    names: Collection[str]
    heads: Collection[str]
    uses: frozenset[str]
    build: Callable[[str, ModelOptions, str, dict[str, Any]], PreTrainedModel]


SHARED = {f.name for f in fields(PeerSettings)} | {"num_blocks", "block_depth"}
FAMILIES = (
    Family([OURS], heads_of(TRANSEVOLVE), frozenset(f.name for f in fields(ModelOptions)), _build_ours),
    Family([MARIAN], [TRANSLATES], frozenset(SHARED - NOT_MARIANS | CHOICES - {"variant", "settings"}), _build_marian),
    Family(SYSTEMS, heads_of(PEER), frozenset(SHARED | CHOICES - {"variant"}), _build_peer),
)


def family_of(system: str) -> Family | None:
    return next((family for family in FAMILIES if system in family.names), None)


def unused(options: ModelOptions) -> list[str]:
    """The settings that are set, but that the system does not use."""
    family = _with_head(options.system)
    return [f"model.{name}" for name, value in asdict(options).items() if value is not None and name not in family.uses]


def _with_head(system: str, head: str | None = None) -> Family:
    """Raise an error if the system does not exist or does not support the head."""
    known = [name for family in FAMILIES if head is None or head in family.heads for name in family.names]
    family = family_of(system)
    if family is None:
        raise UserError(f"unknown model.system {system!r}" + suggestion(system, known))
    if system not in known:
        raise UserError(f"model.system {system!r} has no model {head!r}: choose from {', '.join(known)}")
    return family
