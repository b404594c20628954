"""The configuration of all TransEvolve models."""

from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from ..core.errors import suggestion
from ..core.settings import check_ranges
from ..evolution.backends import BACKENDS, Backend
from ..evolution.block import BlockOptions
from ..evolution.feedforward import rotation_streams
from ..evolution.rotation import checksum
from ..evolution.settings import MAX_DEPTH
from .auto import register_models
from .checks import check_labels, require_known
from .settings import VARIANTS, ModelSettings, variant_settings


class classonly(classmethod):
    """A class method that instances lack: Hugging Face treats every attribute of a configuration as a setting."""

    def __get__(self, instance: object, owner: type | None = None):
        if instance is not None:
            raise AttributeError(f"{self.__func__.__name__} belongs to the class {type(instance).__name__}")
        return super().__get__(None, owner)


@strict
class TransEvolveConfig(PreTrainedConfig, ModelSettings):
    """Configuration of a TransEvolve model.

    Shape: `vocab_size`, `hidden_size` (d, also the temporal width d'), `num_attention_heads`, `intermediate_size`,
    `num_blocks` blocks of `block_depth` depths, and the same for a decoder (`decoder_num_blocks`,
    `decoder_block_depth`; by default those of the encoder).

    Mathematics: `feedforward` "full" or "random"; `evolution` "keys" (the paper's, after cancellation) or "none" (all
    depths of a block share one attention); `row_operators` includes the paper's Wk~, which has no effect; `convention`
    "paper" or "reference" (the authors' released code); `rotation_seed` seeds the rotations of a random feed-forward
    (None: they are in the checkpoint); `rotation_init` "unit" (output as large as the input) or "reference" (the
    authors', almost zero); `initializer_range` is the initial standard deviation of every learned matrix, as in Hugging
    Face's models (None: the authors' initialization, Glorot's and 1/sqrt(d) for embeddings).

    Computation: `attention` names a backend. All are exact except `linear`, which approximates attention by
    `num_features` random features per head (`feature_map` "positive", drawn from `feature_seed` and redrawn every
    `feature_redraw_interval` training passes unless 0) or by elu(x) + 1 ("elu"). `auto` uses `once` while its matrices
    take less than `attention_memory_budget` bytes, else `fused`.

    `max_position_embeddings` is the length that tokenizers truncate to; the model itself takes any length.
    """

    model_type: ClassVar[str] = "transevolve"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {"d_model": "hidden_size"}

    rotation_checksum: str | None = None
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = None
    use_cache: bool = True
    is_decoder: bool = False

    def __post_init__(self, **kwargs):
        register_models()
        check_labels(kwargs.get("num_labels"))
        variant, layers = kwargs.pop("variant", None), kwargs.pop("num_hidden_layers", None)
        if variant in VARIANTS:
            raise ValueError(f"variant={variant!r}: write {type(self).__name__}.variant({variant!r}, ...)")
        if layers is not None:
            self.num_hidden_layers = layers
        if self.decoder_num_blocks is None:
            self.decoder_num_blocks = self.num_blocks
        if self.decoder_block_depth is None:
            self.decoder_block_depth = self.block_depth
        self.resolve()
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        super().__post_init__(**kwargs)

    @property
    def num_hidden_layers(self) -> int:
        """Depths of all encoder blocks; setting it changes `block_depth`."""
        return self.num_blocks * self.block_depth

    @num_hidden_layers.setter
    def num_hidden_layers(self, layers: int) -> None:
        if layers % self.num_blocks:
            raise ValueError(f"num_hidden_layers={layers} does not split into {self.num_blocks} blocks")
        self.block_depth = layers // self.num_blocks

    def validate_ranges(self):
        """Called by `@strict`."""
        check_ranges(self)
        for prefix in ("", "decoder_"):
            blocks, depth = getattr(self, f"{prefix}num_blocks"), getattr(self, f"{prefix}block_depth")
            if blocks * depth > MAX_DEPTH:
                raise ValueError(f"{prefix}num_blocks={blocks} of {depth} depths exceed {MAX_DEPTH} depths in all")

    def validate_sizes(self):
        """Called by `@strict`."""
        even = 2 * self.num_attention_heads
        if self.hidden_size % even:
            below = max(even, self.hidden_size // even * even)
            raise ValueError(
                f"hidden_size={self.hidden_size} does not split into {self.num_attention_heads} heads of even width;"
                f" use {below}"
            )
        if self.feedforward == "random" and self.intermediate_size % 2:
            raise ValueError(
                f"a random feed-forward is half sines, half cosines: intermediate_size={self.intermediate_size} is odd,"
                f" use {self.intermediate_size + 1}"
            )

    def validate_choices(self):
        """Called by `@strict`."""
        if self.attention not in BACKENDS:
            raise ValueError(f"unknown attention {self.attention!r}" + suggestion(self.attention, BACKENDS))
        if self.convention == "reference":
            if self.hidden_size != 64 * self.num_attention_heads:
                raise ValueError(
                    "the authors' code only has heads of width 64: convention='reference' with"
                    f" {self.num_attention_heads} heads needs hidden_size={64 * self.num_attention_heads}"
                )
            if self.rotation_init != "reference":
                raise ValueError("convention='reference' needs rotation_init='reference'")

    @classonly  # pyright: ignore[reportArgumentType]
    def variant(cls, name: str, *, size: str = "small", **overrides: Any) -> "TransEvolveConfig":
        """One of the paper's models: randomFF-1, randomFF-2, fullFF-1, fullFF-2, small (d=256) or base (d=512)."""
        require_known(cls, overrides, "num_hidden_layers")  # pyright: ignore[reportArgumentType]
        return cls(**{**variant_settings(name, size), **overrides})  # pyright: ignore[reportCallIssue]

    def backend(self) -> Backend:
        """The configured attention backend."""
        return BlockOptions.of(self, self.block_depth).backend()

    def drawn_checksum(self) -> str | None:
        """The checksum of the rotations that this machine draws for the configuration; None if it draws none."""
        if self.feedforward != "random" or self.rotation_seed is None:
            return None
        layout = [(self.num_blocks, self.block_depth)]
        if self.is_encoder_decoder:
            layout.append((self.decoder_num_blocks or 1, self.decoder_block_depth or 1))
        return checksum(rotation_streams(self.rotation_seed, layout))


AutoConfig.register("transevolve", TransEvolveConfig, exist_ok=True)
