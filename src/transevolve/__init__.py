"""TransEvolve: Transformer depth as the evolution of interacting particles (Dutta et al., NeurIPS 2021).

Importing it is cheap: names are loaded on first use, and models are registered with the Auto classes of transformers
when transformers loads them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .core.after_import import after_import
from .models.heads import MODELS

if TYPE_CHECKING:
    from .api import Run, load, train
    from .evolution.attention import EvolvedAttention
    from .evolution.stack import EvolvedEncoder
    from .models.config import TransEvolveConfig
    from .models.encoder import TransEvolveModel
    from .models.heads.causal import TransEvolveForCausalLM
    from .models.heads.classification import TransEvolveForSequenceClassification
    from .models.heads.masked import TransEvolveForMaskedLM
    from .models.heads.seq2seq import TransEvolveForConditionalGeneration
    from .models.heads.tokens import TransEvolveForTokenClassification
    from .models.peer import PeerForMaskedLM, PeerForSequenceClassification, PeerForTokenClassification, PeerModel
    from .models.peer_config import PeerConfig
    from .models.reference import load_reference

__version__ = "0.1.0"

__all__ = [
    "EvolvedAttention",
    "EvolvedEncoder",
    "PeerConfig",
    "PeerForMaskedLM",
    "PeerForSequenceClassification",
    "PeerForTokenClassification",
    "PeerModel",
    "Run",
    "TransEvolveConfig",
    "TransEvolveForCausalLM",
    "TransEvolveForConditionalGeneration",
    "TransEvolveForMaskedLM",
    "TransEvolveForSequenceClassification",
    "TransEvolveForTokenClassification",
    "TransEvolveModel",
    "load",
    "load_reference",
    "train",
]

_HOMES = {
    "EvolvedAttention": "evolution.attention",
    "EvolvedEncoder": "evolution.stack",
    "PeerConfig": "models.peer_config",
    "Run": "api",
    "TransEvolveConfig": "models.config",
    "load": "api",
    "load_reference": "models.reference",
    "train": "api",
    **{model.name: f"models.{model.module}" for model in MODELS},
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def _register() -> None:
    for name in ("config", "peer_config"):
        import_module(f".models.{name}", __name__)


after_import("transformers.models.auto.configuration_auto", _register)
