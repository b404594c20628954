"""Every setting of a model, declared once; the Hugging Face configurations, recipes and command line derive from it.

Imports neither torch nor transformers. `dataclasses.fields(ModelSettings)` lists name, type and default;
`field.metadata` has `help` and `range` (None where any value of the type will do).
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
LABELS = Range(1, 2**20)


@dataclass(kw_only=True)
class TextSettings:
    """What models of text share, whatever their layers."""

    vocab_size: int = setting(30522, "Tokens in the vocabulary.", Range(1, 2**24))
    max_position_embeddings: int = setting(512, "Length that tokenizers truncate to.", Range(1, 2**24))
    type_vocab_size: int = setting(1, "Segments of a text with a vector each: 2 for pairs of texts.", Range(1, 2**16))
    sep_token_id: int | None = setting(None, "Token that ends a segment.", Range(0, 2**24))
    embedding_dropout: float = setting(0.0, "Dropout on the embedded tokens.", SHARE)
    position_scale: float = setting(1.0, "Size of the positions that are added to the embedded tokens.", Range(0, 1e3))
    pooling: Literal["mean", "weighted"] = setting(
        "mean", "A text is the mean of its tokens, or their mean weighted by exp(w[token]), w learned."
    )
    drop_unseen: bool = setting(False, "Leave out tokens that no training text has.")
    initializer_range: float | None = setting(
        None,
        "Standard deviation of every learned matrix at the start; by default the authors'.",
        Range(0, 1e6, above=True),
    )
    label_smoothing: float = setting(0.0, "Probability that the target spreads over the other classes.", SHARE)
    tie_word_embeddings: bool = setting(True, "One matrix for token embeddings and output logits.")


@dataclass(kw_only=True)
class ModelSettings(EvolutionSettings, TextSettings):
    """The settings of TransEvolve."""

    num_blocks: int = setting(1, "Blocks, each with an initial condition of its own.", DEPTH)
    block_depth: int = setting(6, "Depths per block.", DEPTH)
    decoder_num_blocks: int | None = setting(None, "Blocks of the decoder; by default num_blocks.", DEPTH)
    decoder_block_depth: int | None = setting(None, "Depths per decoder block; by default block_depth.", DEPTH)


@dataclass(kw_only=True)
class PeerSettings(LayerSettings, TextSettings):
    """The settings of every other system; `system_settings` are those that only one system has."""

    system: str = setting("transformer", "Name of the system; `transevolve systems` lists them.")
    num_hidden_layers: int = setting(6, "Layers.", DEPTH)
    system_settings: dict[str, Any] | None = setting(None, "Settings of this system alone, such as {features: 128}.")


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
