"""All settings of models, declared once; Hugging Face configurations, recipes and the command line derive from them.

Imports neither torch nor transformers. `field.metadata` has `help` and `range` (None: any value of the type).
"""

from dataclasses import dataclass
from typing import Any, Literal

from ..core.errors import suggestion
from ..core.settings import Range, setting
from ..evolution.settings import DEPTH, SHARE, EvolutionSettings, LayerSettings

SIZES: dict[str, dict[str, int]] = {
    "small": {"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024},
    "base": {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "randomFF-1": {"feedforward": "random", "num_blocks": 1, "block_depth": 6},
    "randomFF-2": {"feedforward": "random", "num_blocks": 2, "block_depth": 3},
    "fullFF-1": {"feedforward": "full", "num_blocks": 1, "block_depth": 6},
    "fullFF-2": {"feedforward": "full", "num_blocks": 2, "block_depth": 3},
}
DEFAULT_VARIANT = "fullFF-1"
LABELS = Range(1, 2**20)


@dataclass(kw_only=True)
class TextSettings:
    """Settings of all models of text."""

    vocab_size: int = setting(30522, "Tokens in the vocabulary.", Range(1, 2**24))
    max_position_embeddings: int = setting(512, "Length that tokenizers truncate to.", Range(1, 2**24))
    type_vocab_size: int = setting(1, "Segments with a vector each: 2 for pairs of texts.", Range(1, 2**16))
    sep_token_id: int | None = setting(None, "Token that ends a segment.", Range(0, 2**24))
    embedding_dropout: float = setting(0.0, "Dropout on the embedded tokens.", SHARE)
    position_scale: float = setting(1.0, "Factor of the positions added to the embedded tokens.", Range(0, 1e3))
    pooling: Literal["mean", "weighted"] = setting(
        "mean", "mean of the tokens of a text, or weighted: their mean with learned weights exp(w[token])."
    )
    bigrams: int = setting(
        0,
        "Number of pairs of neighbouring tokens with a weight each, in a classifier that starts as a bag of words.",
        Range(0, 2**24),
    )
    drop_unseen: bool = setting(False, "Ignore tokens that do not occur in the training texts.")
    initializer_range: float | None = setting(
        None,
        "Initial standard deviation of every learned matrix; by default the authors' initialization.",
        Range(0, 1e6, above=True),
    )
    label_smoothing: float = setting(0.0, "Probability that is spread over the other classes.", SHARE)
    tie_word_embeddings: bool = setting(True, "One matrix for token embeddings and output logits.")


@dataclass(kw_only=True)
class ModelSettings(EvolutionSettings, TextSettings):
    """Settings of TransEvolve models."""

    num_blocks: int = setting(1, "Blocks; each starts a new initial condition.", DEPTH)
    block_depth: int = setting(6, "Depths per block.", DEPTH)
    decoder_num_blocks: int | None = setting(None, "Blocks of the decoder; by default num_blocks.", DEPTH)
    decoder_block_depth: int | None = setting(None, "Depths per decoder block; by default block_depth.", DEPTH)


@dataclass(kw_only=True)
class PeerSettings(LayerSettings, TextSettings):
    """Settings of models of other systems; `system_settings` are those of one system."""

    system: str = setting("transformer", "Name of the system; `transevolve systems` lists them.")
    num_hidden_layers: int = setting(6, "Layers.", DEPTH)
    system_settings: dict[str, Any] | None = setting(None, "Settings of this system only, such as {features: 128}.")


def size_settings(size: str) -> dict[str, int]:
    """The paper's small (d=256) or base (d=512)."""
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r}" + suggestion(size, SIZES))
    return SIZES[size]


def variant_settings(name: str, size: str = "small") -> dict[str, Any]:
    """One of the paper's models in one of its sizes."""
    if name not in VARIANTS:
        raise ValueError(f"unknown variant {name!r}" + suggestion(name, VARIANTS))
    return {**size_settings(size), **VARIANTS[name]}
