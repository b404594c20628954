"""Checks shared by the configurations."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from transformers import PreTrainedConfig

from ..core.errors import nearest
from .settings import LABELS

# Keywords of every Hugging Face configuration that are not fields of it.
INHERITED = ("num_labels", "output_attentions", "attn_implementation", "name_or_path", "torch_dtype")


def require_known(cls: type[PreTrainedConfig], names: Iterable[str], *more: str) -> None:
    """Raises TypeError for a keyword that the configuration does not have."""
    known = [*(f.name for f in fields(cls) if not f.name.startswith("_")), *cls.attribute_map, *INHERITED, *more]
    for name in names:
        if name not in known:
            raise TypeError(f"{cls.__name__} has no setting {name!r}{nearest(name, known)}")


def check_labels(number: Any) -> None:
    """Limits the number of label names before Hugging Face generates them."""
    if isinstance(number, int):
        try:
            LABELS.check(number)
        except ValueError as error:
            raise ValueError(f"num_labels {error}") from None
