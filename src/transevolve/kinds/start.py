"""Completes and checks a recipe before its data are read; `model.start` names a model to take tokenizer, sizes and
weights from."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from tokenizers import models
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from ..config.recipe import FROM_DATA, OURS, ModelOptions, Recipe
from ..core.errors import UserError
from ..data.detect import detected_task
from ..data.options import SUBWORDS
from ..data.registry import task_of
from ..data.windows import special_frame
from ..models.base import HEADS
from ..models.config import TransEvolveConfig
from ..models.peer_config import PeerConfig
from ..models.settings import SIZES, VARIANTS, ModelSettings, PeerSettings
from ..runs.folder import check_run, load_errors, load_model, load_run_tokenizer
from ..runs.names import CONFIG, RECIPE
from .base import Kind
from .registry import read_config, resolve

# Settings that may differ for the same weights.
FREE = {"attention", "attention_memory_budget", "feature_redraw_interval", "dropout", "embedding_dropout"}
FREE |= {"label_smoothing", "initializer_range", "tie_word_embeddings", "decoder_num_blocks", "decoder_block_depth"}
FREE |= {"pooling", "bigrams"}
LIBRARY = {models.WordPiece: "wordpiece", models.Unigram: "unigram", models.BPE: "bpe", models.WordLevel: "listops"}


def settle(recipe: Recipe) -> tuple[Kind, PreTrainedTokenizerFast | None]:
    """The kind of task and the tokenizer of `model.start`; raises an error for invalid settings of the model."""
    recipe.data.task = detected_task(recipe.data)
    kind = resolve(recipe)
    tokenizer = settle_start(recipe)
    kind.check(recipe)
    size = recipe.data.vocab_size if tokenizer is None else len(tokenizer)
    if size is not None:
        kind.check_vocabulary(recipe, size)
    return kind, tokenizer


def settle_start(recipe: Recipe) -> PreTrainedTokenizerFast | None:
    """Load the tokenizer of `model.start`, if set, and copy the sizes of its model to the recipe.

    Conflicting settings raise an error.
    """
    if recipe.model.start is None:
        return None
    folder = Path(recipe.model.start)
    config = _config(folder)
    _settle_sizes(recipe.model, config, folder)
    _settle_rest(recipe.model, config, folder)
    tokenizer = load_run_tokenizer(folder)
    if len(tokenizer) != config.vocab_size:
        raise UserError(
            f"model.start {folder} is inconsistent: its tokenizer has {len(tokenizer):,} tokens, but its model"
            f" {config.vocab_size:,}"
        )
    _require_tokenizer(recipe, tokenizer, folder)
    tokenizer.split_special_tokens = task_of(recipe.data) != "masked"
    if recipe.data.max_length is not None:
        tokenizer.model_max_length = recipe.data.max_length
    return tokenizer


def copy_weights(folder: Path, model: PreTrainedModel) -> None:
    """Copy weights into a model: all weights if heads and labels are the same, otherwise those of the encoder."""
    config = _config(folder)
    alike = all(getattr(config, name) == getattr(model.config, name) for name in ("id2label", "pooling", "bigrams"))
    same_head = alike and config.architectures == [type(model).__name__]
    pretrained = load_model(folder, type(model) if same_head else AutoModel)
    into = model if same_head else model.base_model
    with load_errors(folder):
        lacking, left = into.load_state_dict(pretrained.state_dict(), strict=False)
    unfit = [key for key in (*lacking, *left) if same_head or not key.startswith(HEADS)]
    if unfit:
        raise UserError(
            f"model.start {folder} does not contain the weights of this model: only one of them has {unfit[0]}"
        )


def tokenizer_name(tokenizer: PreTrainedTokenizerFast) -> str:
    """The name of a tokenizer in `data.tokenizer`."""
    return tokenizer.init_kwargs.get("unit") or LIBRARY.get(type(tokenizer.backend_tokenizer.model), "another")


def _config(folder: Path) -> TransEvolveConfig | PeerConfig:
    if not folder.is_dir():
        raise UserError(f"model.start: there is no folder {str(folder)!r}")
    if (folder / RECIPE).is_file():
        check_run(folder)
    elif not (folder / CONFIG).is_file():
        raise UserError(f"model.start: {folder} contains no model: it has no {CONFIG}")
    config = read_config(folder)
    if not isinstance(config, TransEvolveConfig | PeerConfig):
        raise UserError(
            f"model.start: {folder} contains a model of type {config.model_type!r}, not a transevolve model"
        )
    return config


def _settle_sizes(options: ModelOptions, config: PreTrainedConfig, folder: Path) -> None:
    system = getattr(config, "system", OURS)
    if options.system != system:
        raise UserError(
            f"model.start {folder} has the system {system}, but model.system is {options.system}:"
            f" set model.system {system}, or choose another start"
        )
    has = _sizes(config)
    asked: dict[str, Any] = {name: value for name in has if (value := getattr(options, name)) is not None}
    if options.variant is not None and system == OURS:
        asked = VARIANTS[options.variant] | asked
    if options.size is not None:
        asked = SIZES[options.size] | asked
    for name, value in asked.items():
        if value != has[name]:
            raise UserError(
                f"model.{name} {value} does not fit model.start {folder}, which has {has[name]}: remove the setting, or"
                " choose another start"
            )
    for name, value in has.items():
        setattr(options, name, value)
    variant = f"{has.get('feedforward')}FF-{has.get('num_blocks')}"
    if options.variant is None and variant in VARIANTS:
        options.variant = variant  # pyright: ignore[reportAttributeAccessIssue]


def _settle_rest(options: ModelOptions, config: TransEvolveConfig | PeerConfig, folder: Path) -> None:
    """New weights are initialized as small values; pooling and bigrams are those of the saved model."""
    for name, value in (("initialization", options.initialization == "bag"), ("vectors", options.vectors)):
        if value:
            raise UserError(
                f"model.{name} {getattr(options, name)} would replace the weights of model.start {folder}: remove one"
            )
    options.initialization = options.initialization or "small"
    options.pooling = options.pooling or config.pooling
    options.bigrams = config.bigrams if options.bigrams is None else options.bigrams


def _sizes(config: PreTrainedConfig) -> dict[str, Any]:
    """The settings that determine the shapes of the weights, by their names in a recipe."""
    ours = isinstance(config, TransEvolveConfig)
    names = {f.name for f in fields(ModelSettings if ours else PeerSettings)}
    names &= {f.name for f in fields(ModelOptions)} - FREE - {*FROM_DATA, "system"}
    found = {name: value for name in sorted(names) if (value := getattr(config, name)) is not None}
    if not ours:
        found |= {"num_blocks": 1, "block_depth": config.num_hidden_layers}
        if config.system_settings:
            found["settings"] = config.system_settings
    return found


def _require_tokenizer(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    data, name, task = recipe.data, tokenizer_name(tokenizer), task_of(recipe.data)
    has = f"model.start {folder}, whose tokenizer is {name} with {len(tokenizer):,} tokens"
    if data.vocab is not None:
        raise UserError(f"data.vocab {data.vocab} does not fit {has}: remove one of the two")
    for key, value, own in (("tokenizer", data.tokenizer, name), ("vocab_size", data.vocab_size, len(tokenizer))):
        if value is not None and value != own:
            raise UserError(f"data.{key} {value} does not fit {has}: remove the setting, or choose another start")
    after = special_frame(tokenizer)[1]
    needs = None
    if task == "translation" and after != [tokenizer.eos_token_id]:
        needs = f"one that adds an end token to every text ({' or '.join(SUBWORDS)}, not of a causal model)"
    if task == "causal" and after:
        needs = "one without an end token, as causal models have"
    if task == "masked" and tokenizer.mask_token_id is None:
        needs = "one with a mask token"
    if (task == "listops") != (name == "listops"):
        needs = "that of ListOps" if task == "listops" else "one of texts"
    if needs is not None:
        raise UserError(f"the task {task} does not fit {has}: it needs {needs}")
