"""Parameters by what they are, each kind with a learning rate of its own."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

KINDS = ("head", "pooling", "embedding", "encoder")


def parameter_kind(name: str) -> str:
    """What a parameter is, by its name: of the head, a pooling weight, a token vector, or of the encoder."""
    parts = name.split(".")
    if "token_weight" in parts:
        return "pooling"
    if "head" in parts:
        return "head"
    return "embedding" if "embedding" in parts else "encoder"


def parameter_groups(
    named: Iterable[tuple[str, nn.Parameter]], weight_decay: float, rates: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Optimizer groups whose `lr` is the factor of each kind (1 unless `rates` says otherwise).

    Only matrices decay. Without rates there are two groups, in the order of the parameters.
    """
    rates = rates or {}
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in named:
        if parameter.requires_grad:
            kind = (rates.get(parameter_kind(name), 1.0), parameter.ndim > 1)
            groups.setdefault(kind, []).append(parameter)
    ordered = sorted(groups.items(), key=lambda item: (-item[0][0], not item[0][1]))
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay if matrix else 0.0}
        for (rate, matrix), parameters in ordered
    ]
