"""The configuration of models of other systems."""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from ..core.settings import check_ranges
from ..peers import check_settings
from .auto import register_models
from .checks import check_labels, require_known
from .settings import PeerSettings, size_settings


@strict
class PeerConfig(PreTrainedConfig, PeerSettings):
    """Configuration of a peer: the name of its `system`, the settings all systems share, and its `system_settings`.

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
        """Called by `@strict`."""
        check_ranges(self)

    def validate_system(self):
        """Called by `@strict`."""
        check_settings(self.system, self.system_settings or {})

    @classmethod
    def of_size(cls, system: str, size: str = "small", **overrides: Any) -> "PeerConfig":
        """A system in one of the paper's sizes: small (d=256) or base (d=512)."""
        require_known(cls, overrides)
        return cls(**{"system": system, **size_settings(size), **overrides})


AutoConfig.register("transevolve-peer", PeerConfig, exist_ok=True)
