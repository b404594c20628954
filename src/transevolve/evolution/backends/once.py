"""`once`: exponentials once per block, shared by all its depths. Exact.

    P = Softmax(A0),  w^l = exp(b^l - max b^l):      Softmax(A0 + b^l) = P_ij w^l_j / D^l_i,   D^l = P w^l

A depth costs one product with P. The normalizers D of all depths come from one product at the start. In the backward
pass the gradient of P would be L matrices of its size; instead each depth returns two thin factors of its share, and

    dP = [g^1 .. g^L, gD] [w^1 v^1 .. w^L v^L, w]^T

is formed in row tiles at the end, where dA0 = dP * P is used immediately. (The backward pass of softmax,
P * (dP - rowsum), needs no row sum here: depths do not depend on the scale of a row, so the sum is zero.)

Second derivatives (`create_graph=True`) differentiate the plain form of each depth.

In 16 bits P is stored in the low dtype, and products with it use that dtype with float32 accumulation; softmax, D, w
and 1/D are float32.

Compiled graphs contain it as operators (`once_ops`); exported ones use `fused`. So does a block whose drift ranges over
more than `SAFE_RANGE`, since w^l might underflow.
"""

import functools
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..masks import reciprocal_or_zero
from .backend import Evolution
from .drift import SAFE_RANGE, drift_weights, half_limit, is_separable
from .exact import ExactBackend
from .fused import FusedEvolution
from .literal import ExactEvolution
from .pool import POOL
from .products import Dtypes, compute_dtype, precision_of
from .tiles import Tile, Tiling, tiling

CACHED = 2**21
ROOM = 2**26
MIXED_ROWS = 512
HALF_TOP = 2.0**15


def _heads_at_once(block: Tensor, precision: Dtypes) -> int:
    """As many heads as fit in the cache, but at least one per thread; on an accelerator, in `ROOM`."""
    heads, rows, keys = block.shape
    if block.device.type == "cpu":
        return max(torch.get_num_threads(), CACHED // (rows * keys))
    return max(1, ROOM // (rows * keys)) if precision.is_low else heads


def _rows_at_once(block: Tensor) -> int:
    """Rows of a matrix that are converted to, or computed in, a wider dtype at a time."""
    heads, rows, keys = block.shape
    return min(rows, max(1, (CACHED if block.device.type == "cpu" else ROOM) // (heads * keys)))


def _mixed_rows(block: Tensor, precision: Dtypes) -> int:
    """Rows that one product averages: all of them in a low dtype, whose products would copy a part of each head."""
    if precision.way == "widened":
        return _rows_at_once(block)
    return block.shape[1] if precision.is_low else MIXED_ROWS


def _pieces(tiling: Tiling, p: Tensor, precision: Dtypes) -> Iterator[tuple[Tile, Tensor]]:
    """The tiles of P, cut into pieces that are computed at once; in low precision rows are cut too."""
    for tile, block in tiling.blocks(p):
        step = _heads_at_once(block, precision)
        for i in range(0, len(block), step):
            heads = slice(tile.heads.start + i, min(tile.heads.start + i + step, tile.heads.stop))
            piece = block[i : i + step]
            rows = _rows_at_once(piece) if precision.is_low else piece.shape[1]
            for r in range(0, piece.shape[1], rows):
                first = tile.rows.start + r
                yield Tile(heads, slice(first, min(first + rows, tile.rows.stop)), tile.keys), piece[:, r : r + rows]


def _without_autocast(backward: Callable) -> Callable:
    """Decorates a backward pass to run without autocast, like the forward pass."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        with torch.autocast(ctx.device, enabled=False):
            return backward(ctx, *grads)

    return run


def attend(q: Tensor, k: Tensor, w: Tensor, tiling: Tiling, precision: Dtypes) -> tuple[Tensor, Tensor]:
    """P as one flat buffer, and the normalizers D of all depths."""
    p = POOL.take(tiling.elements, q.dtype, q.device)
    d = w.new_empty(len(w), w.shape[1], q.shape[1])
    for tile, piece in _pieces(tiling, p, precision):
        factors = (q[tile.heads, tile.rows], k[tile.heads, : tile.keys].mT)
        if precision.is_low:
            scores = precision.multiply(*factors)
            tiling.mask_(scores, tile)
            scores = torch.softmax(scores, -1, dtype=precision.wide)
            if q.dtype == torch.float16:
                scores *= HALF_TOP / scores.amax(-1, keepdim=True)
            piece.copy_(scores)
        else:
            scores = torch.bmm(*factors, out=piece)
            tiling.mask_(scores, tile)
            torch.softmax(scores, -1, out=scores)
        d[tile.heads, :, tile.rows] = w[tile.heads, :, : tile.keys] @ scores.mT
    if tiling.sees_no_key is not None:
        d.masked_fill_(tiling.sees_no_key[:, None], 0.0)
    return p, d


def attend_backward(
    lefts: list[Tensor],
    rights: list[Tensor],
    grad_d: Tensor,
    q: Tensor,
    k: Tensor,
    w: Tensor,
    p: Tensor,
    tiling: Tiling,
    precision: Dtypes,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and w from the shares of dP, two thin factors for each depth, and from the gradient of D."""
    left = torch.cat([*lefts, grad_d.mT.to(precision.thin)], -1)
    right = torch.cat([*rights, w.mT.to(precision.thin)], -1)
    grad_q, grad_k = (torch.zeros_like(x, dtype=precision.wide) for x in (q, k))
    grad_w = torch.zeros_like(w)
    for tile, piece in _pieces(tiling, p, precision):
        rows, keys = (tile.heads, tile.rows), (tile.heads, slice(tile.keys))
        dq, dk = _scores_backward(left[rows], right[keys], piece, q[rows], k[keys], precision)
        grad_q[rows] = dq
        grad_k[keys] += dk
        grad_w[tile.heads, :, : tile.keys] += grad_d[tile.heads, :, tile.rows] @ piece.to(precision.wide)
    return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_w


def average(
    p: Tensor, d: Tensor, w: Tensor, v: Tensor, tiling: Tiling, precision: Dtypes
) -> tuple[Tensor, Tensor, Tensor]:
    """y = P (w v) / D at one depth; and w v and 1 / D."""
    wv = (v * w[..., None]).to(precision.thin)
    y = wv.new_empty(*d.shape, v.shape[-1], dtype=precision.wide)
    for tile, block in tiling.blocks(p):
        step = _mixed_rows(block, precision)
        for r in range(0, block.shape[1], step):
            rows = slice(tile.rows.start + r, min(tile.rows.start + r + step, tile.rows.stop))
            y[tile.heads, rows] = precision.multiply(block[:, r : r + step], wv[tile.heads, : tile.keys])
    inverse = reciprocal_or_zero(d)[..., None]
    y *= inverse
    return y.to(v.dtype), wv, inverse


def average_backward(
    grad: Tensor, p: Tensor, inverse: Tensor, w: Tensor, v: Tensor, y: Tensor, tiling: Tiling, precision: Dtypes
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of D, w and v, and the left factor of this depth's share of dP; the right one is w v."""
    left = grad * inverse
    grad_d = -(left * y).sum(-1)
    left = left.to(precision.thin)
    grad_wv = w.new_zeros(len(v), v.shape[2], v.shape[1])
    for tile, block in tiling.blocks(p):
        step = _rows_at_once(block) if precision.way == "widened" else block.shape[1]
        for r in range(0, block.shape[1], step):
            rows = slice(tile.rows.start + r, min(tile.rows.start + r + step, tile.rows.stop))
            piece = precision.sum_over_rows(left[tile.heads, rows], block[:, r : r + step])
            grad_wv[tile.heads, :, : tile.keys] += piece
    grad_wv = grad_wv.mT
    return grad_d, (grad_wv * v).sum(-1), (grad_wv * w[..., None]).to(v.dtype), left


class _Begin(torch.autograd.Function):
    """q, k, w -> P, D, and two slots per depth, whose gradients are its share of dP."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, w: Tensor, depth: int, part: int, tiling: Tiling, precision: Dtypes):
        p, d = attend(q, k, w, tiling, precision)
        ctx.save_for_backward(q, k, w, p)
        ctx.tiling, ctx.precision, ctx.device = tiling, precision, q.device.type
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
            return None, None, None, None, None, None, None
        q, k, w, p = ctx.saved_tensors
        lefts, rights = [l for l, _ in used], [r for _, r in used]
        grads = attend_backward(lefts, rights, grad_d, q, k, w, p, ctx.tiling, ctx.precision)
        return *grads, None, None, None, None


def _scores_backward(
    left: Tensor, right: Tensor, p: Tensor, q: Tensor, k: Tensor, precision: Dtypes
) -> tuple[Tensor, Tensor]:
    """Gradients of q and k from dA0 = (left right^T) * P, in row tiles that fit in the cache."""
    if precision.is_low:
        grad_a0 = precision.multiply(left, right.mT).mul_(p)
        return precision.multiply(grad_a0, k), precision.sum_over_rows(q, grad_a0).mT
    heads, rows, keys = p.shape
    step = max(1, CACHED // (heads * keys))
    room = q.new_empty(heads * min(step, rows) * keys)
    grad_q, grad_k = torch.empty_like(q), torch.zeros_like(k.mT)
    for r in range(0, rows, step):
        tile = slice(r, min(r + step, rows))
        n = tile.stop - tile.start
        grad_a0 = torch.bmm(left[:, tile], right.mT, out=room[: heads * n * keys].view(heads, n, keys))
        grad_a0 *= p[:, tile]
        grad_q[:, tile] = grad_a0 @ k
        grad_k += precision.sum_over_rows(q[:, tile], grad_a0)
    return grad_q, grad_k.mT


class _Mix(torch.autograd.Function):
    """y = P (w v) / D at one depth; its share of dP is returned as two thin factors.

    q and k are inputs only for second derivatives: in a first backward pass `_Begin` computes their gradients.
    """

    @staticmethod
    def forward(
        ctx,
        p: Tensor,
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
        y, wv, inverse = average(p, d, w, v, tiling, precision)
        ctx.save_for_backward(p, inverse, w, v, wv, y, q, k)
        ctx.tiling, ctx.precision, ctx.device = tiling, precision, v.device.type
        return y

    @staticmethod
    @_without_autocast
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        p, inverse, w, v, wv, y, q, k = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable_backward(grad, q, k, w, v, ctx.tiling)
        grad_d, grad_w, grad_v, left = average_backward(grad, p, inverse, w, v, y, ctx.tiling, ctx.precision)
        return None, grad_d, grad_w, grad_v, left, wv, None, None, None, None


def _differentiable_backward(grad: Tensor, q: Tensor, k: Tensor, w: Tensor, v: Tensor, tiling: Tiling):
    """The gradients of one depth as a graph, complete in q, k, w and v: `_Begin` adds nothing."""
    whole = Tile(slice(0, len(q)), slice(0, q.shape[1]), k.shape[1])
    masked = torch.zeros(len(q), q.shape[1], k.shape[1], dtype=w.dtype, device=q.device)
    tiling.mask_(masked, whole)
    scores = q.to(w.dtype) @ k.to(w.dtype).mT
    p = scores.masked_fill(masked < 0, torch.finfo(w.dtype).min).softmax(-1).masked_fill(masked < 0, 0.0)
    y = (p @ (v * w[..., None])) * reciprocal_or_zero(p @ w[..., None])
    inputs = [t for t in (q, k, w, v) if t.requires_grad]
    grads = iter(torch.autograd.grad(y, inputs, grad.to(y.dtype), create_graph=True))
    grad_q, grad_k, grad_w, grad_v = (next(grads) if t.requires_grad else None for t in (q, k, w, v))
    return None, None, grad_w, grad_v, None, None, grad_q, grad_k, None, None


class OnceEvolution(ExactEvolution):
    def __init__(self, initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None):
        self.initial = initial
        self.precision = precision_of(initial.queries)
        self.tiling = tiling(initial)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.w = drift_weights(initial, drift, self.precision.wide).permute(1, 2, 0, 3).flatten(0, 1)
            self.q, self.k = self.precision.flat(initial.scaled_queries), self.precision.flat(initial.head_keys)
            self.p, self.d, *slots = _Begin.apply(
                self.q, self.k, self.w, initial.depth, initial.value_part, self.tiling, self.precision
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
                self.precision.flat(values),
                *slots,
                self.q,
                self.k,
                self.tiling,
                self.precision,
            )
        return y.unflatten(0, (values.shape[0], -1))


class OnceBackend(ExactBackend):
    name = "once"
    idea = "exponentials once per block, shared by all its depths"
    complexity = "L n^2 d + n^2 exponentials"

    def begin(self, initial: InitialCondition) -> Evolution:
        if torch.compiler.is_exporting():
            return FusedEvolution(initial)
        if torch.compiler.is_compiling():
            from .once_ops import OnceGraphEvolution

            return OnceGraphEvolution(initial)
        drift = initial.drift
        half = compute_dtype(initial.queries) == torch.float16
        limit = half_limit(initial.keys.shape[1]) if half else SAFE_RANGE
        return OnceEvolution(initial, drift) if is_separable(initial, drift, limit) else FusedEvolution(initial)
