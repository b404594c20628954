"""A block's attention with one matrix P = Softmax(A0) for all its depths. Exact.

    w^l = exp(b^l - max b^l):      Softmax(A0 + b^l) = P_ij w^l_j / D^l_i,   D^l = P w^l

A depth costs one product with P. The normalizers D of all depths come from one product at the start. In the backward
pass the gradient of P would be L matrices of its size; instead each depth returns two thin factors of its share, and

    dP = [g^1 .. g^L, gD] [w^1 v^1 .. w^L v^L, w]^T

is formed in pieces at the end, where dA0 = dP * P is used immediately. (The backward pass of softmax,
P * (dP - rowsum), needs no row sum here: depths do not depend on the scale of a row, so the sum is zero.)

P is stored (`once`), or its pieces are computed again at each depth (`fused`). Second derivatives (`create_graph=True`)
differentiate the plain form of each depth. In 16 bits P has the low dtype, and products with it use that dtype with
float32 accumulation; softmax, D, w and 1/D are float32.
"""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..masks import reciprocal_or_zero
from .drift import drift_weights
from .literal import ExactEvolution
from .matrix import Matrix
from .pool import POOL
from .products import Dtypes, flat, precision_of
from .tiles import Tile, Tiling, tiling


def _without_autocast(backward: Callable) -> Callable:
    """Decorates a backward pass to run without autocast, like the forward pass."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        with torch.autocast(ctx.device, enabled=False):
            return backward(ctx, *grads)

    return run


def attend(matrix: Matrix, w: Tensor, keep: bool = True) -> tuple[Tensor | None, Tensor]:
    """P as one flat buffer, if it is to be kept, and the normalizers D of all depths."""
    q, tiling = matrix.q, matrix.tiling
    p = POOL.take(tiling.elements, q.dtype, q.device) if keep else None
    d = w.new_empty(len(w), w.shape[1], q.shape[1])
    for tile, piece in matrix.cut(p):
        wide = matrix.softmax(tile, piece)
        if piece is not None and matrix.precision.is_low:
            piece.copy_(wide)
        d[tile.heads, :, tile.rows] = matrix.precision.multiply_wide(w[tile.heads, :, : tile.keys], wide.mT)
    if tiling.sees_no_key is not None:
        d.masked_fill_(tiling.sees_no_key[:, None], 0.0)
    return p, d


def attend_backward(
    matrix: Matrix, p: Tensor | None, w: Tensor, lefts: list[Tensor], rights: list[Tensor], grad_d: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and w from the shares of dP, two thin factors for each depth, and from the gradient of D."""
    q, k, precision = matrix.q, matrix.k, matrix.precision
    left = torch.cat([*lefts, grad_d.mT.to(precision.thin)], -1)
    right = torch.cat([*rights, w.mT.to(precision.thin)], -1)
    grad_q, grad_k, grad_w = (torch.zeros_like(x, dtype=precision.wide) for x in (q, k.mT, w))
    for tile, piece in matrix.pieces(p):
        rows, keys = (tile.heads, tile.rows), (tile.heads, slice(tile.keys))
        grad_a0 = precision.multiply(left[rows], right[keys].mT).mul_(piece)
        grad_q[rows] = precision.multiply(grad_a0, k[keys])
        grad_k[tile.heads, :, : tile.keys] += precision.sum_over_rows(q[rows], grad_a0)
        wide = piece.to(precision.wide)
        grad_w[tile.heads, :, : tile.keys] += precision.multiply_wide(grad_d[tile.heads, :, tile.rows], wide)
    return grad_q.to(q.dtype), grad_k.mT.to(k.dtype), grad_w


def average(matrix: Matrix, p: Tensor | None, d: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y = P (w v) / D at one depth; and w v and 1 / D."""
    wv = (v * w[..., None]).to(matrix.precision.thin)
    y = wv.new_empty(*d.shape, v.shape[-1], dtype=matrix.precision.wide)
    for tile, piece in matrix.pieces(p):
        y[tile.heads, tile.rows] = matrix.precision.multiply(piece, wv[tile.heads, : tile.keys])
    inverse = reciprocal_or_zero(d)[..., None]
    y *= inverse
    return y.to(v.dtype), wv, inverse


def average_backward(
    matrix: Matrix, p: Tensor | None, grad: Tensor, inverse: Tensor, w: Tensor, v: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of D, w and v, and the left factor of this depth's share of dP; the right one is w v."""
    left = grad * inverse
    grad_d = -(left * y).sum(-1)
    left = left.to(matrix.precision.thin)
    grad_wv = w.new_zeros(len(v), v.shape[2], v.shape[1])
    for tile, piece in matrix.pieces(p):
        grad_wv[tile.heads, :, : tile.keys] += matrix.precision.sum_over_rows(left[tile.heads, tile.rows], piece)
    grad_wv = grad_wv.mT
    return grad_d, (grad_wv * v).sum(-1), (grad_wv * w[..., None]).to(v.dtype), left


class _Begin(torch.autograd.Function):
    """q, k, w -> P (empty unless kept), D, and two slots per depth, whose gradients are its share of dP."""

    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, w: Tensor, depth: int, part: int, tiling: Tiling, precision: Dtypes, keep: bool
    ):
        p, d = attend(Matrix(q, k, tiling, precision), w, keep)
        ctx.save_for_backward(q, k, w, p)
        ctx.tiling, ctx.precision, ctx.device = tiling, precision, q.device.type
        if p is not None:
            ctx.mark_non_differentiable(p)
        ctx.set_materialize_grads(False)
        zero = q.new_zeros((), dtype=precision.thin)
        slots = [zero.expand(len(q), side, part) for side in (q.shape[1], k.shape[1]) for _ in range(depth)]
        return p, d, *slots

    @staticmethod
    @_without_autocast
    def backward(ctx, _, grad_d: Tensor | None, *slots: Tensor | None):  # pyright: ignore[reportIncompatibleMethodOverride]
        depth = len(slots) // 2
        used = [(l, r) for l, r in zip(slots[:depth], slots[depth:], strict=True) if l is not None and r is not None]
        if grad_d is None or not used:
            return (None,) * 8
        q, k, w, p = ctx.saved_tensors
        lefts, rights = [l for l, _ in used], [r for _, r in used]
        grads = attend_backward(Matrix(q, k, ctx.tiling, ctx.precision), p, w, lefts, rights, grad_d)
        return *grads, None, None, None, None, None


class _Mix(torch.autograd.Function):
    """y = P (w v) / D at one depth; its share of dP is returned as two thin factors.

    In a first backward pass `_Begin` computes the gradients of q and k; in others, this does.
    """

    @staticmethod
    def forward(
        ctx,
        p: Tensor | None,
        d: Tensor,
        w: Tensor,
        v: Tensor,
        left: Tensor,
        right: Tensor,
        q: Tensor,
        k: Tensor,
        tiling: Tiling,
        precision: Dtypes,
    ):
        y, wv, inverse = average(Matrix(q, k, tiling, precision), p, d, w, v)
        ctx.save_for_backward(p, inverse, w, v, wv, y, q, k)
        ctx.tiling, ctx.precision, ctx.device = tiling, precision, v.device.type
        return y

    @staticmethod
    @_without_autocast
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        p, inverse, w, v, wv, y, q, k = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable_backward(grad, q, k, w, v, ctx.tiling)
        matrix = Matrix(q, k, ctx.tiling, ctx.precision)
        grad_d, grad_w, grad_v, left = average_backward(matrix, p, grad, inverse, w, v, y)
        return None, grad_d, grad_w, grad_v, left, wv, None, None, None, None


def _differentiable_backward(grad: Tensor, q: Tensor, k: Tensor, w: Tensor, v: Tensor, tiling: Tiling):
    """The gradients of one depth as a graph, complete in q, k, w and v: `_Begin` adds nothing."""
    whole = Tile(slice(0, len(q)), slice(0, q.shape[1]), k.shape[1], k.shape[1])
    masked = torch.zeros(len(q), q.shape[1], k.shape[1], dtype=w.dtype, device=q.device)
    tiling.mask_(masked, whole)
    scores = q.to(w.dtype) @ k.to(w.dtype).mT
    p = scores.masked_fill(masked < 0, torch.finfo(w.dtype).min).softmax(-1).masked_fill(masked < 0, 0.0)
    y = (p @ (v * w[..., None])) * reciprocal_or_zero(p @ w[..., None])
    inputs = [t for t in (q, k, w, v) if t.requires_grad]
    grads = iter(torch.autograd.grad(y, inputs, grad.to(y.dtype), create_graph=True))
    grad_q, grad_k, grad_w, grad_v = (next(grads) if t.requires_grad else None for t in (q, k, w, v))
    return None, None, grad_w, grad_v, None, None, grad_q, grad_k, None, None


class SharedEvolution(ExactEvolution):
    """With `keep`, P is stored; without, memory is linear in length and each depth computes P again."""

    def __init__(self, initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None, keep: bool):
        self.initial = initial
        self.precision = precision_of(initial.queries, initial.queries.shape[1] * initial.keys.shape[1])
        self.tiling = tiling(initial)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.w = drift_weights(initial, drift, self.precision.wide).permute(1, 2, 0, 3).flatten(0, 1)
            self.q, self.k = flat(initial.scaled_queries, self.precision), flat(initial.head_keys, self.precision)
            self.p, self.d, *slots = _Begin.apply(
                self.q, self.k, self.w, initial.depth, initial.value_part, self.tiling, self.precision, keep
            )
        self.left, self.right = slots[: initial.depth], slots[initial.depth :]

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        at = (l - 1) if self.w.shape[1] > 1 else 0
        slots = (self.left[l - 1], self.right[l - 1])
        with torch.autocast(values.device.type, enabled=False):
            y = _Mix.apply(
                self.p,
                self.d[:, at],
                self.w[:, at],
                flat(values, self.precision),
                *slots,
                self.q,
                self.k,
                self.tiling,
                self.precision,
            )
        return y.unflatten(0, (values.shape[0], -1))
