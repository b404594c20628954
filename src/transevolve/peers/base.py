"""What a system is: a token mixer with flags that say what it can do, and a record that says where it comes from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


@dataclass(frozen=True)
class Capabilities:
    """What a mixer can be asked for.

    `causal`: token i sees tokens j <= i only. `padding`: keys can be ignored. `fixed_length`: its parameters depend on
    a longest length, beyond which it cannot go. `stochastic`: it holds random draws that are not learned.
    """

    causal: bool
    padding: bool
    fixed_length: bool
    stochastic: bool

    def __str__(self) -> str:
        return ", ".join(f.name.replace("_", " ") for f in fields(self) if getattr(self, f.name))


class Mixer(nn.Module, ABC):
    """Mixes the tokens of a sequence: (batch, n, d) -> (batch, n, d), without norm, residual or dropout.

    `key_padding_mask` is True at keys to ignore; a token that sees no key gets zeros. A subclass sets `capabilities`,
    writes `mix`, and `reset_parameters` for whatever it learns or draws.
    """

    capabilities: ClassVar[Capabilities]

    def __init__(self, shape: "MixerShape"):
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
            raise ValueError(f"{name} cannot be causal: every token it puts out depends on the whole sequence")
        if can.fixed_length and x.shape[1] > self.shape.max_length:
            raise ValueError(f"{name} was built for at most {self.shape.max_length} tokens, got {x.shape[1]}")
        if key_padding_mask is None:
            return
        if not can.padding:
            raise ValueError(f"{name} cannot ignore padding: give it sequences of one length, without a mask")
        if key_padding_mask.dtype != torch.bool:
            raise TypeError(f"key_padding_mask must be bool (True = ignore), got {key_padding_mask.dtype}")
        if key_padding_mask.shape != x.shape[:2]:
            raise ValueError(
                f"key_padding_mask must be (batch, length) = {tuple(x.shape[:2])}, got {tuple(key_padding_mask.shape)}"
            )


@dataclass(frozen=True)
class MixerShape:
    """What every mixer is built from; `layer` is its place in the stack, for those that draw."""

    hidden_size: int
    num_heads: int
    max_length: int
    layer: int = 0

    def __post_init__(self):
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size={self.hidden_size} does not split into {self.num_heads} heads")


@dataclass(frozen=True)
class System:
    """A system of the paper's tables. `build` takes a `MixerShape` and the system's own settings as keywords.

    `complexity` is that of one layer's mixing, in n tokens of width d; `backend` is how this implementation computes
    it: "sdpa" (PyTorch's scaled dot product attention) or "eager" (plain products).
    """

    name: str
    citation: str
    complexity: str
    backend: str
    capabilities: Capabilities
    build: Callable[..., Mixer]
