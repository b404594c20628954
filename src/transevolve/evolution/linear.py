"""Linear layers that use the fastest float32 products of the CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from ..core.private import onednn_linear, transforms_functions
from .onednn import is_faster

SMALLEST = 2**25
"""Multiply-adds below which MKL is used: batches differ in their number of rows, and oneDNN compiles code for each."""
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
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or transforms_functions():
        return linear(x, weight, bias)
    if x.numel() * weight.shape[0] < SMALLEST or not is_faster(x, weight):
        return linear(x, weight, bias)
    return _Product.apply(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)


def _padded(x: Float[Tensor, "rows width"]) -> Float[Tensor, "padded width"]:
    spare = -len(x) % ROWS
    return pad(x, (0, 0, 0, spare)) if spare else x


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias by oneDNN. Spare rows are cut off in place: a view could not be passed to `relu_`."""
    return onednn_linear(_padded(x), weight, bias).resize_(len(x), len(weight))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        grad_x = grad_weight = grad_bias = None
        if of_bias:
            grad_bias = grad.sum(0)
        if torch.is_grad_enabled():
            grad_x = grad @ weight if of_x else None
            grad_weight = grad.mT @ x if of_weight else None
            return grad_x, grad_weight, grad_bias
        if of_x:
            grad_x = _product(grad, weight.mT)
        if of_weight:
            left, right = _padded(grad).mT, _padded(x).mT
            narrow = len(left) <= len(right)
            grad_weight = onednn_linear(left, right) if narrow else onednn_linear(right, left).mT
        return grad_x, grad_weight, grad_bias
