"""Chooses the precision of training."""

from typing import Literal

import torch

from ..core.devices import default_device
from ..core.private import cpu_multiplies_bfloat16

Precision = Literal["fp32", "bf16"]


def choose_precision(requested: Literal["auto"] | Precision) -> tuple[Precision, str | None]:
    """The precision to use on this machine, and the reason if it was not requested."""
    if requested != "auto":
        return requested, None
    if default_device().type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", "this GPU supports bfloat16"
        return "fp32", "this GPU does not support bfloat16"
    if cpu_multiplies_bfloat16():
        return "bf16", "this CPU supports bfloat16"
    return "fp32", "this CPU does not support bfloat16"
