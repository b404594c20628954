"""The feed-forward of one depth (paper, equations 3 and 11), without its residual connection.

    full:    relu(x W1 + B1) W2 + B2
    random:  the same with W = U S V, where U and V are fixed rotations of that depth and S is learned

Differs from the paper: matrices multiply from the right, as everywhere else in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from .rotation import LEFT, RIGHT, drawn_pair, rotation_pair
from .settings import Convention, EvolutionSettings, LayerSettings


def _perceptron(first: nn.Module, second: nn.Module, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """second(relu(first(x))). On flat rows `first` returns no view, so that relu can work in place without a copy."""
    return second(torch.relu_(first(x.reshape(-1, x.shape[-1])))).view(x.shape)


class GlorotLinear(nn.Linear):
    """x W + B, W as Glorot and Bengio begin it, B zero.

    A class of its own, since Hugging Face initialises no module without parameters of its own, such as a feed-forward.
    """

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class FullFeedForward(nn.Module):
    """relu(x W1 + B1) W2 + B2, every weight learned."""

    def __init__(self, settings: LayerSettings):
        super().__init__()
        self.linear_1 = GlorotLinear(settings.hidden_size, settings.intermediate_size)
        self.linear_2 = GlorotLinear(settings.intermediate_size, settings.hidden_size)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return _perceptron(self.linear_1, self.linear_2, x)


@dataclass(frozen=True)
class RotationKey:
    """Which stream a rotation is drawn from, and at which depth of how many it stands."""

    seed: int | None
    stack: int
    block: int
    l: int
    depth: int

    def stream(self, matrix: int) -> tuple[int, ...]:
        if self.seed is None:
            raise ValueError("rotations without a seed have no stream: their draws come with the checkpoint")
        return (self.seed, self.stack, self.block, self.l, matrix)


class RotationLinear(nn.Module):
    """x U S V + B, with U and V fixed and min(in, out) singular values learned.

    With a seed, U and V are not part of the checkpoint; without one (`key.seed is None`) they are, and must be loaded.
    In training the chain ((x U) * s) V needs no gradient of a matrix; in inference it is folded into one matrix.
    """

    u: Tensor
    v: Tensor

    def __init__(
        self, inputs: int, outputs: int, key: RotationKey, matrix: int, convention: Convention, gain: float | None
    ):
        super().__init__()
        self.inputs, self.outputs, self.key, self.matrix = inputs, outputs, key, matrix
        self.convention, self.gain = convention, gain
        rank = min(inputs, outputs)
        self.singular_values = nn.Parameter(torch.empty(rank))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.register_buffer("u", torch.empty(inputs, rank), persistent=key.seed is None)
        self.register_buffer("v", torch.empty(rank, outputs), persistent=key.seed is None)
        self._folded: tuple[tuple, Tensor] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Singular values of one size, chosen so that the root mean square of the output is `gain` times the input's;
        without a gain, the authors' Glorot uniform draw, under which the layer starts almost inert."""
        rank = len(self.singular_values)
        if self.gain is None:
            limit = math.sqrt(6 / rank)
            nn.init.uniform_(self.singular_values, -limit, limit)
        else:
            nn.init.constant_(self.singular_values, 2 * self.gain * math.sqrt(self.outputs / rank))
        nn.init.zeros_(self.bias)
        self.reset_rotations()

    @torch.no_grad()
    def reset_rotations(self) -> None:
        if self.key.seed is None or self.u.is_meta:
            return
        stream = self.key.stream(self.matrix)
        u, v = drawn_pair(stream, self.inputs, self.outputs, self.key.l, self.key.depth, self.convention)
        self.u.copy_(u)
        self.v.copy_(v)

    @torch.no_grad()
    def load_draws(self, left: np.ndarray, right: np.ndarray) -> None:
        """Take rotations from draws recorded elsewhere."""
        u, v = rotation_pair(left, right, self.inputs, self.outputs, self.key.l, self.key.depth, self.convention)
        self.u.copy_(u)
        self.v.copy_(v)

    def weight(self) -> Float[Tensor, "inputs outputs"]:
        """The dense matrix U S V."""
        return (self.u * self.singular_values) @ self.v

    def folded(self) -> Float[Tensor, "inputs outputs"]:
        """`weight()`, kept until one of its factors changes."""
        parts = (self.u, self.singular_values, self.v)
        if any(p.is_inference() for p in parts):
            return self.weight()
        stamp = tuple((p.data_ptr(), p._version, p.dtype, p.device) for p in parts)
        if self._folded is None or self._folded[0] != stamp:
            self._folded = (stamp, self.weight())
        return self._folded[1]

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        if torch.is_grad_enabled() or self.training or torch.compiler.is_compiling():
            return torch.nn.functional.linear((x @ self.u) * self.singular_values, self.v.mT, self.bias)
        return torch.nn.functional.linear(x, self.folded().mT, self.bias)


class RandomFeedForward(nn.Module):
    """relu(x U1 S1 V1 + B1) U2 S2 V2 + B2: O(d + d_ff) learned parameters."""

    def __init__(self, settings: EvolutionSettings, key: RotationKey):
        super().__init__()
        narrow, wide, convention = settings.hidden_size, settings.intermediate_size, settings.convention
        gains = (1.0, math.sqrt(2)) if settings.rotation_init == "unit" else (None, None)
        self.linear_1 = RotationLinear(narrow, wide, key, 0, convention, gains[0])
        self.linear_2 = RotationLinear(wide, narrow, key, 1, convention, gains[1])

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return _perceptron(self.linear_1, self.linear_2, x)


def rotation_streams(seed: int, layout: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The keys of every stream that stacks of (blocks, depth) draw from: what a checksum has to cover."""
    return [
        (*RotationKey(seed, stack, block, l, depth).stream(matrix), side)
        for stack, (blocks, depth) in enumerate(layout)
        for block in range(blocks)
        for l in range(1, depth + 1)
        for matrix in (0, 1)
        for side in (LEFT, RIGHT)
    ]
