"""All model classes. A new head is a file here, and a line in `MODELS`.

Auto classes and the public names of the package derive from it. Imports neither torch nor transformers.
"""

from typing import NamedTuple

TRANSEVOLVE, PEER = "transevolve", "transevolve-peer"


class ModelClass(NamedTuple):
    """The module of a class (under `transevolve.models`), and the Auto class that it is registered with."""

    name: str
    module: str
    auto: str
    model_type: str = TRANSEVOLVE


MODELS = (
    ModelClass("TransEvolveModel", "encoder", "AutoModel"),
    ModelClass("TransEvolveForSequenceClassification", "heads.classification", "AutoModelForSequenceClassification"),
    ModelClass("TransEvolveForTokenClassification", "heads.tokens", "AutoModelForTokenClassification"),
    ModelClass("TransEvolveForMaskedLM", "heads.masked", "AutoModelForMaskedLM"),
    ModelClass("TransEvolveForCausalLM", "heads.causal", "AutoModelForCausalLM"),
    ModelClass("TransEvolveForConditionalGeneration", "heads.seq2seq", "AutoModelForSeq2SeqLM"),
    ModelClass("PeerModel", "peer", "AutoModel", PEER),
    ModelClass("PeerForSequenceClassification", "peer", "AutoModelForSequenceClassification", PEER),
    ModelClass("PeerForTokenClassification", "peer", "AutoModelForTokenClassification", PEER),
    ModelClass("PeerForMaskedLM", "peer", "AutoModelForMaskedLM", PEER),
)


def heads_of(model_type: str) -> dict[str, ModelClass]:
    """The classes of a model type by their names without prefix, such as "ForMaskedLM"."""
    prefix = {TRANSEVOLVE: "TransEvolve", PEER: "Peer"}[model_type]
    return {model.name.removeprefix(prefix): model for model in MODELS if model.model_type == model_type}
