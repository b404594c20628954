"""What makes a classifier on another system: its configuration."""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from ..core.settings import check_ranges
from ..peers import check_settings
from .auto import register_models
from .config import check_labels, require_known
from .settings import PeerSettings, size_settings


@strict
class PeerConfig(PreTrainedConfig, PeerSettings):
    """What a peer is: the name of its `system`, the shape all systems share, and `system_settings` of its own.

    `max_position_embeddings` is a hard limit only for systems whose parameters depend on the length.
    """

    model_type: ClassVar[str] = "transevolve-peer"
    attribute_map: ClassVar[dict[str, str]] = {"d_model": "hidden_size"}

    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs):
        register_models()
        check_labels(kwargs.get("num_labels"))
        self.resolve()
        super().__post_init__(**kwargs)

    def validate_ranges(self):
        """Part of the validation that `@strict` runs."""
        check_ranges(self)

    def validate_system(self):
        """Part of the validation that `@strict` runs."""
        check_settings(self.system, self.system_settings or {})

    @classmethod
    def of_size(cls, system: str, size: str = "small", **overrides: Any) -> "PeerConfig":
        """A system in one of the paper's sizes: small (d=256) or base (d=512)."""
        require_known(cls, overrides)
        return cls(**{"system": system, **size_settings(size), **overrides})


AutoConfig.register("transevolve-peer", PeerConfig, exist_ok=True)
