"""What a backend is: `begin` from an initial condition, then attention at any depth of the block."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition


class Evolution(ABC):
    """A block's attention, ready to be evaluated at depth l = 1..L."""

    @abstractmethod
    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        """The values averaged by the attention of depth l; zero where a query sees no key."""

    @abstractmethod
    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l itself."""


@dataclass(frozen=True)
class Settings:
    """What a backend may be told; `TransEvolveConfig` has a field for each."""

    memory_budget: int = 2**31
    features: int = 64
    feature_map: str = "positive"
    feature_seed: int = 0
    redraw_interval: int = 0


Begin = Callable[[InitialCondition, Settings], Evolution]
