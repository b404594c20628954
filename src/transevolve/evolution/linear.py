"""Linear layers that use the fastest float32 products of the CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from ..core.private import onednn_linear, onednn_multiplies_faster, transforms_functions

# Smaller products stay with MKL: for each new number of rows oneDNN compiles code, in about a millisecond.
SMALLEST = 2**25
ROWS = 64
"""oneDNN keeps the code that it compiles for each number of rows, so rows are padded to a multiple of this."""


class Linear(nn.Linear):
    """`nn.Linear`; without gradients, in float32 on a CPU, by whichever of PyTorch's two libraries is faster there."""

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        return multiply(input, self.weight, self.bias)


def multiply(
    x: Float[Tensor, "*batch inputs"], weight: Float[Tensor, "outputs inputs"], bias: Float[Tensor, " outputs"] | None
) -> Float[Tensor, "*batch outputs"]:
    """`torch.nn.functional.linear`, as `Linear` computes it."""
    if torch.is_grad_enabled() or not _is_plain(x) or not _is_plain(weight):
        return linear(x, weight, bias)
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or transforms_functions():
        return linear(x, weight, bias)
    if x.numel() * weight.shape[0] < SMALLEST or not onednn_multiplies_faster():
        return linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    spare = -len(rows) % ROWS
    y = onednn_linear(pad(rows, (0, 0, 0, spare)) if spare else rows, weight, bias)
    return y[: len(rows)].view(*x.shape[:-1], -1)


def _is_plain(x: Tensor) -> bool:
    return type(x) in (Tensor, nn.Parameter) and x.dtype == torch.float32 and x.device.type == "cpu"
