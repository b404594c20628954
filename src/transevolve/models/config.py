"""The configuration of every TransEvolve model."""

from typing import ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from ..core.errors import suggestion
from ..evolution.backends import BACKENDS, Settings
from ..evolution.block import BlockOptions
from ..evolution.feedforward import rotation_streams
from ..evolution.rotation import checksum
from .auto import register_models

SIZES = {
    "small": {"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024},
    "base": {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048},
}
VARIANTS = {
    "randomFF-1": {"feedforward": "random", "num_blocks": 1, "block_depth": 6},
    "randomFF-2": {"feedforward": "random", "num_blocks": 2, "block_depth": 3},
    "fullFF-1": {"feedforward": "full", "num_blocks": 1, "block_depth": 6},
    "fullFF-2": {"feedforward": "full", "num_blocks": 2, "block_depth": 3},
}


SHAPE = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")


def require_positive(config: PreTrainedConfig, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(config, name)}")


def require_share(config: PreTrainedConfig, *names: str) -> None:
    for name in names:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {getattr(config, name)}")


@strict
class TransEvolveConfig(PreTrainedConfig):
    """What a TransEvolve model is.

    Shape: `vocab_size`, `hidden_size` (d, also the temporal width d'), `num_attention_heads`, `intermediate_size`,
    `num_blocks` blocks of `block_depth` depths, and the same for a decoder (`decoder_num_blocks`,
    `decoder_block_depth`, by default those of the encoder).

    Mathematics: `feedforward` "full" or "random"; `evolution` "keys" (the paper's, after cancellation) or "none"
    (attention shared unchanged over depths); `row_operators` carries the paper's Wk~, which cannot matter;
    `convention` "paper" or "reference" (the authors' released code); `rotation_seed` draws the rotations of a random
    feed-forward (None: they are in the checkpoint); `rotation_init` "unit" (output as large as the input) or
    "reference" (the authors', almost zero); `initializer_range` is the deviation of every learned matrix at the start,
    as in Hugging Face's models (None: the authors', Glorot's and 1/sqrt(d) for embeddings).

    Computation: `attention` names a backend. All are exact but `linear`, which approximates by `num_features` random
    features a head (`feature_map` "positive", drawn from `feature_seed`, anew every `feature_redraw_interval` training
    passes unless 0) or by elu(x) + 1 ("elu"). `auto` uses `once` while its matrices take less than
    `attention_memory_budget` bytes, else `fused`.

    Inputs: `position_scale` multiplies the sinusoidal positions; `pooling` of a classifier is "mean" or "weighted" (by
    a learned weight of each token); with `drop_unseen` tokens never seen in training count as padding.
    `max_position_embeddings` is what tokenizers truncate at; positions are computed, so a model takes any length.
    """

    model_type: ClassVar[str] = "transevolve"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {"d_model": "hidden_size"}

    vocab_size: int = 30522
    hidden_size: int = 256
    num_attention_heads: int = 8
    intermediate_size: int = 1024
    num_blocks: int = 1
    block_depth: int = 6
    decoder_num_blocks: int | None = None
    decoder_block_depth: int | None = None
    feedforward: Literal["full", "random"] = "full"
    attention: str = "auto"
    evolution: Literal["keys", "none"] = "keys"
    row_operators: bool = False
    rotation_seed: int | None = 0
    rotation_init: Literal["unit", "reference"] | None = None
    rotation_checksum: str | None = None
    initializer_range: float | None = None
    convention: Literal["paper", "reference"] = "paper"
    attention_memory_budget: int = 2**31
    num_features: int = 64
    feature_map: Literal["positive", "elu"] = "positive"
    feature_seed: int = 0
    feature_redraw_interval: int = 0
    dropout: float = 0.1
    embedding_dropout: float = 0.0
    position_scale: float = 1.0
    pooling: Literal["mean", "weighted"] = "mean"
    drop_unseen: bool = False
    layer_norm_eps: float | None = None
    max_position_embeddings: int = 512
    label_smoothing: float = 0.0
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        register_models()
        if self.decoder_num_blocks is None:
            self.decoder_num_blocks = self.num_blocks
        if self.decoder_block_depth is None:
            self.decoder_block_depth = self.block_depth
        if self.layer_norm_eps is None:
            self.layer_norm_eps = 1e-3 if self.convention == "reference" else 1e-5
        if self.rotation_init is None:
            self.rotation_init = "reference" if self.convention == "reference" else "unit"
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        super().__post_init__(**kwargs)

    @property
    def num_hidden_layers(self) -> int:
        return self.num_blocks * self.block_depth

    def validate_sizes(self):
        """Part of the validation that `@strict` runs."""
        require_positive(self, *SHAPE, "num_blocks", "block_depth", "num_features")
        even = 2 * self.num_attention_heads
        if self.hidden_size % even:
            below = max(even, self.hidden_size // even * even)
            raise ValueError(
                f"hidden_size={self.hidden_size} does not split into {self.num_attention_heads} heads of even width;"
                f" {below} would"
            )
        if self.feedforward == "random" and self.intermediate_size % 2:
            raise ValueError(
                f"a random feed-forward is half sines, half cosines: intermediate_size={self.intermediate_size} is odd,"
                f" {self.intermediate_size + 1} would do"
            )
        require_share(self, "dropout", "embedding_dropout", "label_smoothing")
        if self.initializer_range is not None and not self.initializer_range > 0:
            raise ValueError(f"initializer_range must be positive, got {self.initializer_range}")

    def validate_choices(self):
        """Part of the validation that `@strict` runs."""
        if self.attention not in BACKENDS:
            known = list(BACKENDS)
            raise ValueError(f"unknown attention {self.attention!r}" + suggestion(self.attention, known))
        for name in ("attention_memory_budget", "feature_redraw_interval"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.rotation_seed is not None and not 0 <= self.rotation_seed < 2**32:
            raise ValueError(f"rotation_seed must lie in 0..2**32-1, got {self.rotation_seed}")
        if self.convention == "reference":
            if self.hidden_size != 64 * self.num_attention_heads:
                raise ValueError(
                    "the authors' code knows only heads of 64: convention='reference' with"
                    f" {self.num_attention_heads} heads needs hidden_size={64 * self.num_attention_heads}"
                )
            if self.rotation_init != "reference":
                raise ValueError("convention='reference' goes with rotation_init='reference'")

    @classmethod
    def variant(cls, name: str, *, size: str = "small", **overrides) -> "TransEvolveConfig":
        """One of the paper's models: randomFF-1, randomFF-2, fullFF-1, fullFF-2, small (d=256) or base (d=512)."""
        if name not in VARIANTS:
            raise ValueError(f"unknown variant {name!r}" + suggestion(name, list(VARIANTS)))
        if size not in SIZES:
            raise ValueError(f"unknown size {size!r}" + suggestion(size, list(SIZES)))
        return cls(**{**SIZES[size], **VARIANTS[name], **overrides})

    def block_options(self, depth: int) -> BlockOptions:
        return BlockOptions(
            hidden_size=self.hidden_size,
            num_heads=self.num_attention_heads,
            intermediate_size=self.intermediate_size,
            depth=depth,
            feedforward=self.feedforward,
            backend=self.attention,
            evolution=self.evolution,
            row_operators=self.row_operators,
            rotation_seed=self.rotation_seed,
            rotation_init=self.rotation_init or "unit",
            convention=self.convention,
            dropout=self.dropout,
            layer_norm_eps=self.layer_norm_eps or 1e-5,
            settings=self.backend_settings(),
        )

    def backend_settings(self) -> Settings:
        return Settings(
            memory_budget=self.attention_memory_budget,
            features=self.num_features,
            feature_map=self.feature_map,
            feature_seed=self.feature_seed,
            redraw_interval=self.feature_redraw_interval,
        )

    def drawn_checksum(self) -> str | None:
        """The fingerprint of the rotations this machine draws for this configuration; None if it draws none."""
        if self.feedforward != "random" or self.rotation_seed is None:
            return None
        layout = [(self.num_blocks, self.block_depth)]
        if self.is_encoder_decoder:
            layout.append((self.decoder_num_blocks or 1, self.decoder_block_depth or 1))
        return checksum(rotation_streams(self.rotation_seed, layout))


AutoConfig.register("transevolve", TransEvolveConfig, exist_ok=True)
