"""The feed-forward of one depth (paper, equations 3 and 11), without its residual connection.

    full:    relu(x W1 + B1) W2 + B2
    random:  the same with W = U S V, where U and V are fixed rotations of that depth and S is learned

Differs from the paper: matrices multiply from the right here too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from .linear import Linear, multiply
from .rotation import LEFT, RIGHT, drawn_pair, rotation_pair
from .settings import Convention, EvolutionSettings, LayerSettings


def _perceptron(first: nn.Module, second: nn.Module, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """second(relu(first(x))). On flattened rows `first` returns no view, so relu can work in place; a layer with a
    method `relu` computes relu(first(x)) itself."""
    rows = x.reshape(-1, x.shape[-1])
    fused = getattr(first, "relu", None)
    return second(torch.relu_(first(rows)) if fused is None else fused(rows)).view(x.shape)


class GlorotLinear(Linear):
    """x W + B, with W initialized by Glorot's uniform distribution and B by zero.

    Hugging Face initializes only modules that own parameters, so this is not done by the feed-forward.
    """

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class FullFeedForward(nn.Module):
    """relu(x W1 + B1) W2 + B2, all weights learned (equation 3)."""

    def __init__(self, settings: LayerSettings):
        super().__init__()
        self.linear_1 = GlorotLinear(settings.hidden_size, settings.intermediate_size)
        self.linear_2 = GlorotLinear(settings.intermediate_size, settings.hidden_size)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return _perceptron(self.linear_1, self.linear_2, x)


@dataclass(frozen=True)
class RotationKey:
    """The random stream of a rotation, and its depth l out of `depth`."""

    seed: int | None
    stack: int
    block: int
    l: int
    depth: int

    def stream(self, matrix: int) -> tuple[int, ...]:
        if self.seed is None:
            raise ValueError("rotations without a seed have no random stream: they are read from the checkpoint")
        return (self.seed, self.stack, self.block, self.l, matrix)


class RotationLinear(nn.Module):
    """x U S V + B, with U and V fixed and min(in, out) singular values learned.

    With a seed, U and V are not in the checkpoint; without one (`key.seed is None`) they are, and must be loaded.
    Training uses the chain ((x U) * s) V, which needs no gradient of a matrix; inference on a CPU folds it into one.
    """

    u: Tensor
    v: Tensor

    def __init__(
        self, inputs: int, outputs: int, key: RotationKey, matrix: int, convention: Convention, gain: float | None
    ):
        super().__init__()
        self.inputs, self.outputs, self.key, self.matrix = inputs, outputs, key, matrix
        self.convention: Convention = convention
        self.gain = gain
        rank = min(inputs, outputs)
        self.singular_values = nn.Parameter(torch.empty(rank))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.register_buffer("u", torch.empty(inputs, rank), persistent=key.seed is None)
        self.register_buffer("v", torch.empty(rank, outputs), persistent=key.seed is None)
        self._folded: tuple[Tensor, Tensor] | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Equal singular values such that the output's root mean square is `gain` times the input's. Without a gain,
        the authors' Glorot uniform draw, with which the output is almost zero at first."""
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
        """Computes the rotations from recorded draws."""
        u, v = rotation_pair(left, right, self.inputs, self.outputs, self.key.l, self.key.depth, self.convention)
        self.u.copy_(u)
        self.v.copy_(v)

    def weight(self) -> Float[Tensor, "inputs outputs"]:
        """The dense matrix U S V."""
        return (self.u * self.singular_values) @ self.v

    def folded(self) -> Float[Tensor, "inputs outputs"]:
        """`weight()`, cached until one of its factors changes.

        Changes are detected by value, since writes to `.data` leave no other trace: by all singular values, and by the
        diagonals of U and V, which are only ever replaced as a whole.
        """
        stamp = torch.cat([self.singular_values, self.u.diagonal(), self.v.diagonal()])
        cached = self._folded
        if cached is None or cached[0].dtype != stamp.dtype or not torch.equal(cached[0], stamp):
            self._folded = cached = (stamp, self.weight())
        return cached[1]

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        trained = torch.is_grad_enabled() or self.training
        if trained or torch.compiler.is_compiling() or x.device.type != "cpu":
            return multiply(multiply(x, self.u.mT, None) * self.singular_values, self.v.mT, self.bias)
        return multiply(x, self.folded().mT, self.bias)


class RandomFeedForward(nn.Module):
    """relu(x U1 S1 V1 + B1) U2 S2 V2 + B2 (equation 11): O(d + d_ff) learned parameters."""

    def __init__(self, settings: EvolutionSettings, key: RotationKey):
        super().__init__()
        narrow, wide, convention = settings.hidden_size, settings.intermediate_size, settings.convention
        gains = (1.0, math.sqrt(2)) if settings.rotation_init == "unit" else (None, None)
        self.linear_1 = RotationLinear(narrow, wide, key, 0, convention, gains[0])
        self.linear_2 = RotationLinear(wide, narrow, key, 1, convention, gains[1])

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        return _perceptron(self.linear_1, self.linear_2, x)


def rotation_streams(seed: int, layout: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The key of every stream that stacks of (blocks, depth) draw from, for the checksum."""
    return [
        (*RotationKey(seed, stack, block, l, depth).stream(matrix), side)
        for stack, (blocks, depth) in enumerate(layout)
        for block in range(blocks)
        for l in range(1, depth + 1)
        for matrix in (0, 1)
        for side in (LEFT, RIGHT)
    ]
