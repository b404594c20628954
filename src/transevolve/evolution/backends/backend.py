"""The interface of a backend: how it computes the attention of a block, and its capabilities."""

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, NoReturn

from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from .state import PreparedKeys, Stream


class Evolution(ABC):
    """A block's attention, ready to be evaluated at depth l = 1..L."""

    initial: InitialCondition

    @abstractmethod
    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        """The values averaged by the attention of depth l; zero where a query sees no key."""

    @abstractmethod
    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l."""


class Backend(ABC):
    """A way to compute attention: its capabilities, and `begin`, `stream` and `remember`.

    An exact backend derives from `ExactBackend` and implements only `begin`. Its settings are fields of a frozen
    dataclass. Using a capability that a backend lacks raises a `ValueError` that names both.

    Attributes:
        idea: How it computes attention, in one line.
        complexity: Cost of the L depths of a block, for n tokens of width d.
        exact: Whether it computes softmax attention up to rounding, not an approximation.
        streams: Whether it can continue causal attention as tokens arrive.
        remembers: Whether it can prepare keys and values once for many queries.
        redraws: Whether it uses random features, which may be redrawn in training.
        compiles: Whether `torch.compile` and `torch.export` accept it.
        redraw_interval: Training passes between redraws of its features; 0 never redraws.
    """

    name: ClassVar[str]
    idea: ClassVar[str]
    complexity: ClassVar[str]
    exact: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    redraws: ClassVar[bool] = False
    compiles: ClassVar[bool] = True
    redraw_interval: int = 0

    @abstractmethod
    def begin(self, initial: InitialCondition) -> Evolution:
        """Attention from a block's initial condition."""

    def stream(self, limit: int | None = None) -> Stream:
        """An empty past for causal attention; `limit` is the largest length, if known."""
        self.refuse("continue a sequence as its tokens arrive")

    def remember(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]) -> PreparedKeys:
        """The keys of an initial condition, prepared for many queries; all depths share the values."""
        self.refuse("prepare keys for many queries")

    def draw(self, width: int, number: int = 0) -> Float[Tensor, "features width"] | None:
        """Draws the random features for heads of this width; None if the backend uses none."""
        return None

    def configured(self, **settings: Any) -> "Backend":
        """A copy with these settings; those that the backend does not have are ignored."""
        if not is_dataclass(self):
            return self
        return replace(self, **{f.name: settings[f.name] for f in fields(self) if f.name in settings})

    def capabilities(self) -> str:
        kind = "exact" if self.exact else "approximate"
        named = ("streams", "remembers", "redraws", "compiles")
        return ", ".join([kind, *(name for name in named if getattr(self, name))])

    def refuse(self, what: str) -> NoReturn:
        """Raises an error that names the backend and the capability it lacks."""
        raise ValueError(f"attention backend {self.name!r} cannot {what}; choose another backend")
