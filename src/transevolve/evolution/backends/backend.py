"""What a backend is: a way to compute the attention of a block, and what it can be asked for."""

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

    An exact backend derives from `ExactBackend` and writes only `begin`. Settings of its own are the fields of a
    frozen dataclass. Asking for a capability that a backend lacks raises a `ValueError` that names both.

    Attributes:
        idea: One line: how it computes attention.
        complexity: Cost of the L depths of a block, in n tokens of width d.
        exact: It computes softmax attention itself, up to rounding.
        streams: It continues causal attention as tokens arrive.
        remembers: It prepares keys and values once for many queries.
        redraws: It uses random features, which may be redrawn in training.
        compiles: `torch.compile` and `torch.export` accept it.
        redraw_interval: Training passes after which its features are redrawn; 0: never.
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
        """An empty past for causal attention to a sequence of at most `limit` tokens, if that is known."""
        self.refuse("continue a sequence as its tokens arrive")

    def remember(self, initial: InitialCondition, values: Float[Tensor, "batch heads k part"]) -> PreparedKeys:
        """The keys of an initial condition, prepared for many queries; `values` serve every depth."""
        self.refuse("prepare keys for many queries")

    def draw(self, width: int, number: int = 0) -> Float[Tensor, "features width"] | None:
        """Directions of the random features for heads of this width; None if it uses none."""
        return None

    def configured(self, **settings: Any) -> "Backend":
        """This backend with those of the settings that are its own."""
        if not is_dataclass(self):
            return self
        return replace(self, **{f.name: settings[f.name] for f in fields(self) if f.name in settings})

    def capabilities(self) -> str:
        kind = "exact" if self.exact else "approximate"
        named = ("streams", "remembers", "redraws", "compiles")
        return ", ".join([kind, *(name for name in named if getattr(self, name))])

    def refuse(self, what: str) -> NoReturn:
        """An error that names the backend and the capability it lacks."""
        raise ValueError(f"attention backend {self.name!r} cannot {what}; choose another backend")
