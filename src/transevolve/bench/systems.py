"""`fullFF-1:once@base`, `transformer`: system names on the command line, and their classifiers."""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from ..core.errors import suggestion
from ..evolution.backends import BACKENDS, AutoBackend
from ..models.build import build_peer, build_transevolve
from ..models.config import TransEvolveConfig
from ..models.peer_config import PeerConfig
from ..models.settings import SIZES, VARIANTS
from ..peers import SYSTEMS, known_settings, resolved_settings

NUM_LABELS = 10
HEAD = "ForSequenceClassification"


@dataclass(frozen=True)
class Spec:
    """A parsed system name."""

    text: str
    name: str
    backend: str
    size: str

    @property
    def is_peer(self) -> bool:
        return self.name in SYSTEMS

    @property
    def has_features(self) -> bool:
        if self.is_peer:
            return "features" in known_settings(self.name)
        return self.backend in BACKENDS and BACKENDS[self.backend].redraws


def parse_spec(text: str, size: str) -> Spec:
    """VARIANT[:BACKEND][@SIZE] or PEER[@SIZE]; the default backend is that of the configuration."""
    named, _, own_size = text.partition("@")
    name, _, backend = named.partition(":")
    size = own_size or size
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r} in {text!r}" + suggestion(size, SIZES))
    if name in SYSTEMS:
        if backend:
            raise ValueError(f"{text!r}: only TransEvolve takes a backend; write {name!r}")
        return Spec(text, name, SYSTEMS[name].backend, size)
    if name not in VARIANTS:
        raise ValueError(f"unknown system {name!r}" + suggestion(name, [*VARIANTS, *SYSTEMS]))
    backend = backend or TransEvolveConfig.variant(name).attention
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r} in {text!r}" + suggestion(backend, BACKENDS))
    return Spec(text, name, backend, size)


def build_model(spec: Spec, *, length: int, vocab: int, features: int | None) -> PreTrainedModel:
    """A newly initialized classifier for sequences of this length."""
    shared = {"vocab_size": vocab, "num_labels": NUM_LABELS, "max_position_embeddings": length}
    name = "features" if spec.is_peer else "num_features"
    settings = {name: features} if features is not None and spec.has_features else {}
    if spec.is_peer:
        return build_peer(HEAD, spec.name, spec.size, system_settings=settings, **shared)
    return build_transevolve(HEAD, spec.name, spec.size, attention=spec.backend, **settings, **shared)


def feature_count(model: PreTrainedModel, spec: Spec) -> int | None:
    """Random features per head, if the system has them."""
    if not spec.has_features:
        return None
    if isinstance(model.config, PeerConfig):
        return resolved_settings(spec.name, model.config.system_settings or {})["features"]
    return model.config.num_features


def backend_at(spec: Spec, length: int, batch: int, device: str = "cpu", precision: str = "fp32") -> str:
    """The backend that computes this cell: the choice of `auto`, or the backend of the spec."""
    backend = None if spec.is_peer else BACKENDS[spec.backend]
    if not isinstance(backend, AutoBackend):
        return spec.backend
    heads = TransEvolveConfig.variant(spec.name, size=spec.size).num_attention_heads
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    kind = torch.device(device).type
    return f"{spec.backend}: {backend.choose(length, length, batch, heads, kind, dtype)[0].name}"
