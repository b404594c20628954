"""Settings of the layers. A layer takes the whole object and reads the fields it needs.

Imports no torch: configurations and command lines are built from these fields cheaply.
"""

from dataclasses import dataclass
from typing import Literal

from ..core.settings import Range, setting

EvolutionKind = Literal["keys", "none"]
FeedForwardKind = Literal["full", "random"]
Convention = Literal["paper", "reference"]
RotationInit = Literal["unit", "reference"]
FeatureMap = Literal["positive", "elu"]

SHARE = Range(0, 1, below=True)
SEED = Range(0, 2**32 - 1)
MAX_DEPTH = 1024
DEPTH = Range(1, MAX_DEPTH)


@dataclass(kw_only=True)
class LayerSettings:
    """Settings of the layers of every system."""

    hidden_size: int = setting(256, "Width d of the token vectors.", Range(1, 2**16))
    num_attention_heads: int = setting(8, "Attention heads.", Range(1, 2**12))
    intermediate_size: int = setting(1024, "Width of the feed-forward.", Range(1, 2**18))
    dropout: float = setting(0.1, "Dropout inside the blocks.", SHARE)
    layer_norm_eps: float | None = setting(
        None, "Epsilon of layer norms; 1e-5, or 1e-3 under convention reference.", Range(0, 1, above=True)
    )

    def resolve(self) -> None:
        """Fills in the defaults that depend on other settings."""
        if self.layer_norm_eps is None:
            self.layer_norm_eps = 1e-5

    @property
    def resolved_eps(self) -> float:
        """`layer_norm_eps`, resolved."""
        assert self.layer_norm_eps is not None
        return self.layer_norm_eps


@dataclass(kw_only=True)
class EvolutionSettings(LayerSettings):
    """Settings of TransEvolve's layers."""

    feedforward: FeedForwardKind = setting("full", "full (learned) or random (fixed rotations of learned size).")
    attention: str = setting("auto", "Attention backend: auto, once, fused, linear or literal.")
    evolution: EvolutionKind = setting("keys", "keys (the paper's) or none (one attention for all depths of a block).")
    row_operators: bool = setting(
        False, "Include the paper's operators that cancel in the softmax, to match its parameter counts."
    )
    convention: Convention = setting("paper", "paper, or reference (the authors' released code).")
    rotation_seed: int | None = setting(0, "Seed of the random feed-forward's rotations.", SEED)
    rotation_init: RotationInit | None = setting(
        None, "Start of a random feed-forward: unit (output as large as input) or reference (the authors', near zero)."
    )
    attention_memory_budget: int = setting(
        2**31, "Bytes of attention matrices up to which auto chooses once; beyond, fused.", Range(0, 2**60)
    )
    num_features: int = setting(64, "Random features per head, under attention linear.", Range(1, 2**16))
    feature_map: FeatureMap = setting("positive", "positive or elu, under attention linear.")
    feature_seed: int = setting(0, "Seed of the random features.", SEED)
    feature_redraw_interval: int = setting(
        0, "Training passes between draws of new random features; 0 never redraws.", Range(0, 2**60)
    )

    def resolve(self) -> None:
        reference = self.convention == "reference"
        if self.layer_norm_eps is None and reference:
            self.layer_norm_eps = 1e-3
        if self.rotation_init is None:
            self.rotation_init = "reference" if reference else "unit"
        super().resolve()
