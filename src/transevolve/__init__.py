"""TransEvolve: Transformer depth as the evolution of interacting particles (Dutta et al., NeurIPS 2021)."""

from .evolution.attention import EvolvedAttention
from .evolution.encoder import EvolvedEncoder
from .models.classification import TransEvolveForSequenceClassification
from .models.configuration import TransEvolveConfig
from .models.encoder import TransEvolveModel
from .models.peer import PeerConfig, PeerForSequenceClassification
from .models.reference import load_reference
from .models.translation import TransEvolveForConditionalGeneration

__version__ = "0.1.0"

__all__ = [
    "EvolvedAttention",
    "EvolvedEncoder",
    "PeerConfig",
    "PeerForSequenceClassification",
    "TransEvolveConfig",
    "TransEvolveForConditionalGeneration",
    "TransEvolveForSequenceClassification",
    "TransEvolveModel",
    "load_reference",
]
