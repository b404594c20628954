"""Base classes of mixers, which mix the tokens of a sequence, and flags for what they support."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


@dataclass(frozen=True)
class Capabilities:
    """What a mixer supports.

    `causal`: token i attends only to tokens j <= i. `padding`: keys can be ignored. `fixed_length`: its parameters
    depend on a maximum length, which inputs cannot exceed. `stochastic`: it contains random draws that are not learned.
    `export`: `torch.export` works for any batch size and length; otherwise for one shape.
    """

    causal: bool
    padding: bool
    fixed_length: bool
    stochastic: bool
    export: bool = True

    def __str__(self) -> str:
        return ", ".join(f.name.replace("_", " ") for f in fields(self) if getattr(self, f.name))


@dataclass(frozen=True)
class MixerShape:
    """Sizes of a mixer. `layer` is its index in the stack, for mixers with random draws or shared work."""

    hidden_size: int
    num_heads: int
    max_length: int
    layer: int = 0

    def __post_init__(self):
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size={self.hidden_size} does not split into {self.num_heads} heads")

    @property
    def part(self) -> int:
        """The width of a head."""
        return self.hidden_size // self.num_heads

    def draw_seed(self, seed: int) -> int:
        """Returns a seed that differs between layers."""
        return (1009 * seed + self.layer) % 2**32


class Mixer(nn.Module, ABC):
    """Mixes the tokens of a sequence: (batch, n, d) -> (batch, n, d), without norm, residual or dropout.

    `key_padding_mask` is True at keys to ignore; the output is zero for a token that sees no key. A subclass sets
    `capabilities` and implements `mix` and `reset_parameters`, which initializes parameters and random draws.
    """

    capabilities: ClassVar[Capabilities]

    def __init__(self, shape: MixerShape):
        super().__init__()
        self.shape = shape

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch n d"]:
        self._check(x, key_padding_mask, causal)
        return self.mix(x, key_padding_mask, causal)

    @abstractmethod
    def mix(
        self, x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool
    ) -> Float[Tensor, "batch n d"]: ...

    @abstractmethod
    def reset_parameters(self) -> None: ...

    def _check(self, x: Tensor, key_padding_mask: Tensor | None, causal: bool) -> None:
        name, can = type(self).__name__, self.capabilities
        if x.ndim != 3 or x.shape[-1] != self.shape.hidden_size:
            raise ValueError(f"{name} takes (batch, length, {self.shape.hidden_size}), got {tuple(x.shape)}")
        if causal and not can.causal:
            raise ValueError(f"{name} cannot be causal: every output token depends on the whole sequence")
        if can.fixed_length and x.shape[1] > self.shape.max_length:
            raise ValueError(f"{name} was built for at most {self.shape.max_length} tokens, got {x.shape[1]}")
        if key_padding_mask is None:
            return
        if not can.padding:
            raise ValueError(f"{name} cannot ignore padding: use sequences of equal length, without a mask")
        if key_padding_mask.dtype != torch.bool:
            raise TypeError(f"key_padding_mask must be bool (True = ignore), got {key_padding_mask.dtype}")
        if key_padding_mask.shape != x.shape[:2]:
            raise ValueError(
                f"key_padding_mask must be (batch, length) = {tuple(x.shape[:2])}, got {tuple(key_padding_mask.shape)}"
            )


class SharingMixer(Mixer):
    """A mixer that shares work between layers: `begin` computes it, or returns that of the layer below."""

    @abstractmethod
    def begin(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Bool[Tensor, "batch n"] | None,
        causal: bool,
        below: Any,
    ) -> Any: ...

    @abstractmethod
    def mix_shared(self, x: Float[Tensor, "batch n d"], shared: Any) -> Float[Tensor, "batch n d"]: ...

    def mix(self, x, key_padding_mask, causal):
        return self.mix_shared(x, self.begin(x, key_padding_mask, causal, None))
