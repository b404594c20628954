"""What a backend is: `begin` from an initial condition, then attention at any depth of the block."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..settings import EvolutionSettings, FeatureMap


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
    """The settings that backends read, each a field of `EvolutionSettings`."""

    memory_budget: int = EvolutionSettings.attention_memory_budget
    features: int = EvolutionSettings.num_features
    feature_map: FeatureMap = EvolutionSettings.feature_map
    feature_seed: int = EvolutionSettings.feature_seed
    redraw_interval: int = EvolutionSettings.feature_redraw_interval


Begin = Callable[[InitialCondition, Settings], Evolution]
