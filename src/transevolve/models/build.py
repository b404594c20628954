"""Builders of all models: TransEvolve and peers with any head, and a Marian Transformer of the same shape."""

from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from ..core.errors import suggestion
from .auto import model_class
from .checks import require_known
from .config import TransEvolveConfig
from .heads import PEER, TRANSEVOLVE, heads_of
from .peer_config import PeerConfig
from .settings import DEFAULT_VARIANT, size_settings

if TYPE_CHECKING:
    from transformers import MarianConfig, MarianMTModel


def build_transevolve(
    head: str, variant: str = DEFAULT_VARIANT, size: str = "small", **settings: Any
) -> PreTrainedModel:
    """TransEvolve with a head, named like its class without the prefix, such as "ForSequenceClassification"."""
    return _class(head, TRANSEVOLVE)(TransEvolveConfig.variant(variant, size=size, **settings))


def build_peer(head: str, system: str, size: str = "small", **settings: Any) -> PreTrainedModel:
    """Another system with a head, such as "Model" or "ForSequenceClassification"."""
    return _class(head, PEER)(PeerConfig.of_size(system, size, **settings))


def build_marian(size: str = "small", positions: int | None = None, **settings: Any) -> "MarianMTModel":
    """Marian with the width, depth, dropout and vocabulary that TransEvolve has with these settings.

    It has a table of `positions` sinusoidal positions, and one embedding for source, target and logits. Settings that
    only TransEvolve has are ignored; `embedding_dropout` is refused, since Marian has one dropout for everything.
    """
    from transformers import MarianMTModel

    return MarianMTModel(marian_config(size, positions, **settings))


def marian_config(size: str = "small", positions: int | None = None, **settings: Any) -> "MarianConfig":
    from transformers import MarianConfig

    require_known(TransEvolveConfig, settings, "num_hidden_layers")
    config = TransEvolveConfig(**{**size_settings(size), **settings})
    if config.embedding_dropout:
        raise ValueError("marian has no embedding_dropout: its `dropout` applies to the embedded tokens too")
    sides = {
        "layers": (config.num_hidden_layers, (config.decoder_num_blocks or 1) * (config.decoder_block_depth or 1)),
        "attention_heads": (config.num_attention_heads,) * 2,
        "ffn_dim": (config.intermediate_size,) * 2,
    }
    return MarianConfig(
        vocab_size=config.vocab_size,
        d_model=config.hidden_size,
        dropout=config.dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=positions or max(1024, 2 * config.max_position_embeddings),
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,  # pyright: ignore[reportArgumentType]
        forced_eos_token_id=None,
        **{f"encoder_{name}": encoder for name, (encoder, _) in sides.items()},
        **{f"decoder_{name}": decoder for name, (_, decoder) in sides.items()},
    )


def _class(head: str, model_type: str) -> Any:
    known = heads_of(model_type)
    if head not in known:
        raise ValueError(f"{model_type} has no head {head!r}" + suggestion(head, known))
    return model_class(known[head])
