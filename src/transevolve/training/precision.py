"""The precision of training, and why."""

from typing import Literal

import torch

from ..core.devices import default_device
from ..core.private import cpu_multiplies_bfloat16

Precision = Literal["auto", "fp32", "bf16"]


def choose_precision(asked: Precision) -> tuple[Literal["fp32", "bf16"], str]:
    """What `asked` means on this machine, and why."""
    if asked != "auto":
        return asked, "as asked for"
    if default_device().type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16", "this GPU multiplies in bfloat16"
        return "fp32", "this GPU has no instructions for bfloat16"
    if cpu_multiplies_bfloat16():
        return "bf16", "this CPU multiplies in bfloat16"
    return "fp32", "this CPU has no instructions for bfloat16"
