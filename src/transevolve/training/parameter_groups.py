"""Groups parameters by kind, each with its own learning rate."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn


def parameter_kind(name: str) -> str:
    """The kind of a parameter, by its name: head, pooling, embedding or encoder."""
    parts = name.split(".")
    if "token_weight" in parts:
        return "pooling"
    if "head" in parts:
        return "head"
    return "embedding" if "embedding" in parts else "encoder"


def parameter_groups(
    named: Iterable[tuple[str, nn.Parameter]], weight_decay: float, rates: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Optimizer groups whose `lr` is the factor of their kind in `rates`, 1 by default.

    Weight decay applies to matrices only. Without rates there are two groups, in the order of the parameters.
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
