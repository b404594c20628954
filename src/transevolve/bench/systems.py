"""`fullFF-1:once@base`, `transformer`: what a user types for a system, and the classifier it stands for."""

from dataclasses import dataclass

from transformers import PreTrainedModel

from ..core.errors import suggestion
from ..evolution.backends import BACKENDS, AutoBackend
from ..models.config import TransEvolveConfig
from ..models.heads.classification import TransEvolveForSequenceClassification
from ..models.peer import PeerForSequenceClassification
from ..models.peer_config import PeerConfig
from ..models.settings import SIZES, VARIANTS
from ..peers import SYSTEMS, known_settings, resolved_settings

NUM_LABELS = 10


@dataclass(frozen=True)
class Spec:
    """A system as typed, and what that means."""

    text: str
    name: str
    backend: str
    size: str

    @property
    def is_peer(self) -> bool:
        return self.name in SYSTEMS

    @property
    def has_features(self) -> bool:
        return "features" in known_settings(self.name) if self.is_peer else BACKENDS[self.backend].redraws


def parse_spec(text: str, size: str) -> Spec:
    """VARIANT[:BACKEND][@SIZE] or PEER[@SIZE]; without a backend, the one that the configuration defaults to."""
    named, _, given_size = text.partition("@")
    name, _, backend = named.partition(":")
    size = given_size or size
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r} in {text!r}" + suggestion(size, list(SIZES)))
    if name in SYSTEMS:
        if backend:
            raise ValueError(f"{text!r}: only TransEvolve takes a backend; write {name!r}")
        return Spec(text, name, SYSTEMS[name].backend, size)
    if name not in VARIANTS:
        raise ValueError(f"unknown system {name!r}" + suggestion(name, [*VARIANTS, *SYSTEMS]))
    backend = backend or TransEvolveConfig.variant(name).attention
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r} in {text!r}" + suggestion(backend, list(BACKENDS)))
    return Spec(text, name, backend, size)


def build_model(spec: Spec, *, length: int, vocab: int, features: int | None) -> PreTrainedModel:
    """A classifier for sequences of this length, freshly initialised."""
    shared = {"vocab_size": vocab, "num_labels": NUM_LABELS, "max_position_embeddings": length, "dropout": 0.1}
    name = "features" if spec.is_peer else "num_features"
    told = {name: features} if features is not None and spec.has_features else {}
    if spec.is_peer:
        config = PeerConfig.of_size(spec.name, spec.size, system_settings=told, **shared)
        return PeerForSequenceClassification(config)
    config = TransEvolveConfig.variant(spec.name, size=spec.size, attention=spec.backend, **told, **shared)
    return TransEvolveForSequenceClassification(config)


def feature_count(model: PreTrainedModel, spec: Spec) -> int | None:
    """Random features a head, where the system has them."""
    if not spec.has_features:
        return None
    if isinstance(model.config, PeerConfig):
        return resolved_settings(spec.name, model.config.system_settings or {})["features"]
    return model.config.num_features


def backend_at(spec: Spec, length: int, batch: int) -> str:
    """The backend that computes this cell: what `auto` chooses for it, or the spec's own."""
    backend = None if spec.is_peer else BACKENDS[spec.backend]
    if not isinstance(backend, AutoBackend):
        return spec.backend
    heads = TransEvolveConfig.variant(spec.name, size=spec.size).num_attention_heads
    return f"{spec.backend}: {backend.choose(length, length, batch, heads)[0].name}"
