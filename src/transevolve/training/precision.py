"""Chooses the precision of training."""

from typing import Literal

import torch

from ..core.devices import default_device
from ..core.private import cpu_multiplies_bfloat16


def choose_precision(requested: Literal["auto", "fp32", "bf16"]) -> tuple[Literal["fp32", "bf16"], str]:
    """The precision to use on this machine, and the reason."""
    if requested != "auto":
        return requested, "as requested"
    if default_device().type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", "this GPU supports bfloat16"
        return "fp32", "this GPU does not support bfloat16"
    if cpu_multiplies_bfloat16():
        return "bf16", "this CPU supports bfloat16"
    return "fp32", "this CPU does not support bfloat16"
