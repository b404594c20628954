"""From options to a model with fresh weights."""

from dataclasses import asdict
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import MarianConfig, MarianMTModel, PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import ModelOptions
from ..core.errors import UserError, nearest, suggestion
from ..models.config import TransEvolveConfig
from ..models.heads.classification import TransEvolveForSequenceClassification
from ..models.heads.seq2seq import TransEvolveForConditionalGeneration
from ..models.peer import PeerForSequenceClassification
from ..models.peer_config import PeerConfig
from ..models.settings import SIZES
from ..peers import SYSTEMS

OURS, RIVAL = "transevolve", "marian"
SHARED = ("hidden_size", "num_attention_heads", "intermediate_size", "dropout", "embedding_dropout")
LAYERS = ("num_blocks", "block_depth")
EVERYWHERE = ("system", "size", "settings", "label_smoothing")


def build_classifier(
    options: ModelOptions, tokenizer: PreTrainedTokenizerFast, labels: list[str], max_length: int, **more: Any
) -> PreTrainedModel:
    """An encoder with an output for each label, of whichever system the options name."""
    facts = {
        **token_facts(tokenizer),
        "max_position_embeddings": max_length,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        **more,
    }
    try:
        if options.system == OURS:
            return TransEvolveForSequenceClassification(transevolve_config(options, facts))
        return PeerForSequenceClassification(_peer_config(options, facts))
    except (ValueError, StrictDataclassError) as error:
        raise UserError(f"model: {error.__cause__ or error}") from error


def build_translator(options: ModelOptions, tokenizer: PreTrainedTokenizerFast, max_length: int) -> PreTrainedModel:
    """An encoder-decoder: TransEvolve, or Marian's Transformer of the same width and depth."""
    facts = {**token_facts(tokenizer), "max_position_embeddings": max_length}
    try:
        if options.system == OURS:
            return TransEvolveForConditionalGeneration(transevolve_config(options, facts, is_encoder_decoder=True))
        if options.system == RIVAL:
            return MarianMTModel(_marian_config(options, facts))
    except (ValueError, StrictDataclassError) as error:
        raise UserError(f"model: {error.__cause__ or error}") from error
    hint = "; the other systems only classify" if options.system in SYSTEMS else nearest(options.system, [OURS, RIVAL])
    raise UserError(f"model.system {options.system!r} does not translate: choose {OURS} or {RIVAL}{hint}")


def _marian_config(options: ModelOptions, facts: dict[str, Any]) -> MarianConfig:
    """Sinusoidal positions, one embedding for source, target and logits, dropout where the paper has it."""
    said = given(options)
    shape = {**SIZES[options.size], **said}
    layers = said.get("num_blocks", 1) * said.get("block_depth", 6)
    heads, width = shape["num_attention_heads"], shape["intermediate_size"]
    return MarianConfig(
        vocab_size=facts["vocab_size"],
        d_model=shape["hidden_size"],
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=width,
        decoder_ffn_dim=width,
        dropout=shape.get("dropout", 0.1),
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=max(1024, 2 * facts["max_position_embeddings"]),
        pad_token_id=facts["pad_token_id"],
        bos_token_id=facts["bos_token_id"],
        eos_token_id=facts["eos_token_id"],
        decoder_start_token_id=facts["bos_token_id"],
        forced_eos_token_id=None,
    )


def token_facts(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    return {"vocab_size": len(tokenizer), **{name: getattr(tokenizer, name) for name in names}}


def given(options: ModelOptions) -> dict[str, Any]:
    """What was said, of all that could have been."""
    return {name: value for name, value in asdict(options).items() if value is not None}


def transevolve_config(options: ModelOptions, facts: dict[str, Any], **more: Any) -> TransEvolveConfig:
    said = given(options)
    if "settings" in said:
        raise UserError("model.settings belong to other systems: TransEvolve's settings are keys of their own")
    variant, size = said.pop("variant", "fullFF-1"), said.pop("size")
    del said["system"]
    return TransEvolveConfig.variant(variant, size=size, **{**facts, **more, **said})


def _peer_config(options: ModelOptions, facts: dict[str, Any]) -> PeerConfig:
    said = given(options)
    system, size = said.pop("system"), said.pop("size")
    if system not in SYSTEMS:
        raise UserError(f"unknown model.system {system!r}" + suggestion(system, [OURS, *SYSTEMS]))
    settings = said.pop("settings", None)
    layers = said.pop("num_blocks", 1) * said.pop("block_depth", 6)
    shape = {"num_hidden_layers": layers, "system_settings": settings}
    return PeerConfig.of_size(system, size, **{**facts, **shape, **_shared(said)})


def _shared(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name in SHARED}


def unused(options: ModelOptions) -> list[str]:
    """The settings that are set and that the system does not have."""
    if options.system == OURS:
        return []
    used = {*SHARED, *LAYERS, *EVERYWHERE} - ({"embedding_dropout", "settings"} if options.system == RIVAL else set())
    return [f"model.{name}" for name in given(options) if name not in used]
