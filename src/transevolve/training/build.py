"""From options to a model with fresh weights."""

from dataclasses import asdict
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..errors import UserError, suggestion
from ..models.classification import TransEvolveForSequenceClassification
from ..models.configuration import TransEvolveConfig
from ..models.peer import PeerConfig, PeerForSequenceClassification
from ..peers import SYSTEMS
from .options import ModelOptions

OURS = "transevolve"
SHARED = ("hidden_size", "num_attention_heads", "intermediate_size", "dropout", "embedding_dropout")
LAYERS = ("num_blocks", "block_depth")


def build_classifier(
    options: ModelOptions, tokenizer: PreTrainedTokenizerFast, labels: list[str], max_length: int
) -> PreTrainedModel:
    """A classifier into the labels, of whichever system the options name."""
    facts = {
        **token_facts(tokenizer),
        "max_position_embeddings": max_length,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    try:
        if options.system == OURS:
            return TransEvolveForSequenceClassification(transevolve_config(options, facts))
        return PeerForSequenceClassification(_peer_config(options, facts))
    except ValueError as error:
        raise UserError(f"model: {error}") from error


def token_facts(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    return {"vocab_size": len(tokenizer), **{name: getattr(tokenizer, name) for name in names}}


def given(options: ModelOptions) -> dict[str, Any]:
    """What was said, of all that could have been."""
    return {name: value for name, value in asdict(options).items() if value is not None}


def transevolve_config(options: ModelOptions, facts: dict[str, Any]) -> TransEvolveConfig:
    said = given(options)
    if "settings" in said:
        raise UserError("model.settings belong to other systems: TransEvolve's settings are keys of their own")
    variant, size = said.pop("variant", "fullFF-1"), said.pop("size")
    del said["system"]
    return TransEvolveConfig.variant(variant, size=size, **{**facts, **said})


def _peer_config(options: ModelOptions, facts: dict[str, Any]) -> PeerConfig:
    said = given(options)
    system, size = said.pop("system"), said.pop("size")
    if system not in SYSTEMS:
        raise UserError(f"unknown model.system {system!r}" + suggestion(system, [OURS, *SYSTEMS]))
    settings = said.pop("settings", None)
    layers = said.pop("num_blocks", 1) * said.pop("block_depth", 6)
    foreign = [name for name in said if name not in SHARED]
    if foreign:
        raise UserError(f"model.{foreign[0]} is TransEvolve's: it has no meaning for system {system!r}, remove it")
    shape = {"num_hidden_layers": layers, "system_settings": settings}
    return PeerConfig.of_size(system, size, **{**facts, **shape, **said})
