"""What makes a classifier on another system: its configuration."""

from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from ..core.errors import suggestion
from ..peers import check_settings
from .auto import register_models
from .config import SHAPE, SIZES, require_positive, require_share


@strict
class PeerConfig(PreTrainedConfig):
    """What a peer is: the name of its `system`, the shape all systems share, and `system_settings` of its own.

    `max_position_embeddings` is a hard limit only for systems whose parameters depend on the length.
    """

    model_type: ClassVar[str] = "transevolve-peer"
    attribute_map: ClassVar[dict[str, str]] = {"d_model": "hidden_size"}

    system: str = "transformer"
    vocab_size: int = 30522
    hidden_size: int = 256
    num_attention_heads: int = 8
    intermediate_size: int = 1024
    num_hidden_layers: int = 6
    dropout: float = 0.1
    embedding_dropout: float = 0.0
    position_scale: float = 1.0
    pooling: Literal["mean", "weighted"] = "mean"
    drop_unseen: bool = False
    initializer_range: float | None = None
    layer_norm_eps: float = 1e-5
    max_position_embeddings: int = 512
    pad_token_id: int | None = 0
    system_settings: dict[str, Any] | None = None

    def __post_init__(self, **kwargs):
        register_models()
        super().__post_init__(**kwargs)

    def validate_sizes(self):
        """Part of the validation that `@strict` runs."""
        require_positive(self, *SHAPE, "num_hidden_layers")
        require_share(self, "dropout", "embedding_dropout")

    def validate_system(self):
        """Part of the validation that `@strict` runs."""
        check_settings(self.system, self.system_settings or {})

    @classmethod
    def of_size(cls, system: str, size: str = "small", **overrides) -> "PeerConfig":
        """A system in one of the paper's sizes: small (d=256) or base (d=512)."""
        if size not in SIZES:
            raise ValueError(f"unknown size {size!r}" + suggestion(size, list(SIZES)))
        return cls(**{"system": system, **SIZES[size], **overrides})


AutoConfig.register("transevolve-peer", PeerConfig, exist_ok=True)
