"""TransEvolve: Transformer depth as the evolution of interacting particles (Dutta et al., NeurIPS 2021).

Importing it is cheap: names load on first use, and the Auto classes of transformers learn the models when transformers
loads them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .core.after_import import after_import

if TYPE_CHECKING:
    from .evolution.attention import EvolvedAttention
    from .evolution.stack import EvolvedEncoder
    from .models.config import TransEvolveConfig
    from .models.encoder import TransEvolveModel
    from .models.heads.classification import TransEvolveForSequenceClassification
    from .models.heads.seq2seq import TransEvolveForConditionalGeneration
    from .models.peer import PeerForSequenceClassification
    from .models.peer_config import PeerConfig
    from .models.reference import load_reference

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

_HOMES = {
    "EvolvedAttention": "evolution.attention",
    "EvolvedEncoder": "evolution.stack",
    "PeerConfig": "models.peer_config",
    "PeerForSequenceClassification": "models.peer",
    "TransEvolveConfig": "models.config",
    "TransEvolveForConditionalGeneration": "models.heads.seq2seq",
    "TransEvolveForSequenceClassification": "models.heads.classification",
    "TransEvolveModel": "models.encoder",
    "load_reference": "models.reference",
}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


after_import("transformers.models.auto.configuration_auto", lambda: import_module(".models.config", __name__))
