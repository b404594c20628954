"""FNet (Lee-Thorp et al., 2022): the real part of a Fourier transform over width and length. Nothing is learned.

    Y = Re(F_n X F_d) / sqrt(n d)

Differs from the paper: the transform is scaled to be unitary, because the skeleton adds it to a residual stream that is
not normalized again. Each sequence is transformed over its own tokens, sequences of equal length together: padding is
not part of the sums, and its output is zero.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..evolution.initial import at_least_float32
from ..evolution.reads import read
from .base import Capabilities, Mixer
from .system import System


class _Fourier(torch.autograd.Function):
    """Re(F X F): linear and symmetric, so backward is the same transform."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return torch.fft.fft2(x, norm="ortho").real.contiguous()

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Fourier.apply(grad)


class FNet(Mixer):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=False, stochastic=False, export=False)

    def reset_parameters(self) -> None:
        """There are no parameters."""

    def mix(self, x, key_padding_mask, causal):
        wide = x.to(at_least_float32(x.dtype))
        y = _Fourier.apply(wide) if key_padding_mask is None else _by_length(wide, ~key_padding_mask)
        return y.to(x.dtype)


def _by_length(x: Float[Tensor, "batch n d"], real: Bool[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
    if torch.compiler.is_compiling():
        raise ValueError("FNet groups sequences by length, which a graph cannot: compile or export it without a mask")
    counts: list[int] = read(real.sum(-1), "frequencies")
    if min(counts) == x.shape[1]:
        return _Fourier.apply(x)
    places = (~real).int().argsort(dim=-1, stable=True)
    y = torch.zeros_like(x)
    for count in sorted(set(counts)):
        if count:
            rows = torch.tensor([[row] for row, own in enumerate(counts) if own == count], device=x.device)
            own = places[rows[:, 0], :count]
            y = y.index_put((rows, own), _Fourier.apply(x[rows, own]))
    return y


FNET = System(
    "fnet",
    "Lee-Thorp et al., FNet: Mixing Tokens with Fourier Transforms, NAACL 2022",
    "n d log(n d)",
    "fft",
    FNet.capabilities,
    FNet,
)
