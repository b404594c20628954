"""`once`: exponentials once per block, shared by all its depths. Exact.

    P = Softmax(A0),  w^l = exp(b^l - max b^l):      Softmax(A0 + b^l) = P_ij w^l_j / D^l_i,   D^l = P w^l

A depth costs one product with P. The normalizers D of all depths come from one product at the start. In backward the
gradient of P would be L matrices as large as P; instead each depth returns the two thin factors of its share, and

    dP = [g^1 .. g^L, gD] [w^1 v^1 .. w^L v^L, w]^T

is formed in row tiles at the very end, where dA0 = dP * P is consumed at once. (Softmax's own backward,
P * (dP - rowsum), needs no row sum here: depths do not depend on the scale of a row, so the sum is zero.)

Second derivatives (`create_graph=True`) are computed too, by differentiating each depth written out plainly.

If the drift spans more than `SAFE_RANGE` over the keys, w^l might underflow; `fused` is exact at any range and is used
instead.
"""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition, at_least_float32
from ..masks import reciprocal_or_zero
from .backend import Evolution
from .exact import ExactBackend
from .fused import FusedEvolution
from .literal import LiteralEvolution
from .pool import POOL
from .tiles import Tile, Tiling, tiling

SAFE_RANGE = 50.0
CACHED = 2**21
MIXED_ROWS = 512


def _at_once(block: Tensor) -> int:
    """Heads processed together: as many as fit the cache but at least one per thread; all of them on an accelerator."""
    heads, rows, keys = block.shape
    return max(torch.get_num_threads(), CACHED // (rows * keys)) if block.device.type == "cpu" else heads


def _in_full_precision(backward: Callable) -> Callable:
    """Backward without autocast, like forward."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        with torch.autocast(ctx.device, enabled=False):
            return backward(ctx, *grads)

    return run


class _Begin(torch.autograd.Function):
    """q, k, w -> P (one flat buffer), D, and for each depth two slots that return its share of dP."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, w: Tensor, depth: int, part: int, tiling: Tiling):
        p = POOL.take(tiling.elements, q.dtype, q.device)
        d = w.new_empty(len(w), w.shape[1], q.shape[1])
        for tile, block in tiling.blocks(p):
            step = _at_once(block)
            for i in range(0, len(block), step):
                first = tile.heads.start + i
                heads = slice(first, min(first + step, tile.heads.stop))
                scores = block[i : i + step]
                torch.bmm(q[heads, tile.rows], k[heads, : tile.keys].mT, out=scores)
                tiling.mask_(scores, tile, first)
                torch.softmax(scores, -1, out=scores)
                d[heads, :, tile.rows] = w[heads, :, : tile.keys] @ scores.mT
        if tiling.sees_no_key is not None:
            d.masked_fill_(tiling.sees_no_key[:, None], 0.0)
        ctx.save_for_backward(q, k, w, p)
        ctx.tiling, ctx.device = tiling, q.device.type
        ctx.mark_non_differentiable(p)
        ctx.set_materialize_grads(False)
        slots = [q.new_zeros(()).expand(len(q), side, part) for side in (q.shape[1], k.shape[1]) for _ in range(depth)]
        return p, d, *slots

    @staticmethod
    @_in_full_precision
    def backward(ctx, _, grad_d: Tensor | None, *slots: Tensor | None):  # pyright: ignore
        q, k, w, p = ctx.saved_tensors
        depth = len(slots) // 2
        used = [(l, r) for l, r in zip(slots[:depth], slots[depth:], strict=True) if l is not None and r is not None]
        if grad_d is None or not used:
            return None, None, None, None, None, None
        left = torch.cat([*(l for l, _ in used), grad_d.mT], -1)
        right = torch.cat([*(r for _, r in used), w.mT], -1)
        grad_q, grad_k, grad_w = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(w)
        for tile, block in ctx.tiling.blocks(p):
            step = _at_once(block)
            for i in range(0, len(block), step):
                heads = slice(tile.heads.start + i, min(tile.heads.start + i + step, tile.heads.stop))
                shares = (left[heads, tile.rows], right[heads, : tile.keys])
                dq, dk = _scores_backward(*shares, block[i : i + step], q[heads, tile.rows], k[heads, : tile.keys])
                grad_q[heads, tile.rows] = dq
                grad_k[heads, : tile.keys] += dk
                grad_w[heads, :, : tile.keys] += grad_d[heads, :, tile.rows] @ block[i : i + step]
        return grad_q, grad_k, grad_w, None, None, None


def _scores_backward(left: Tensor, right: Tensor, p: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of q and k from dA0 = (left right^T) * P, in row tiles that stay in the cache."""
    heads, rows, keys = p.shape
    step = max(1, CACHED // (heads * keys))
    room = q.new_empty(heads * min(step, rows) * keys)
    grad_q, grad_k = torch.empty_like(q), torch.zeros_like(k)
    for r in range(0, rows, step):
        tile = slice(r, min(r + step, rows))
        n = tile.stop - tile.start
        grad_a0 = torch.bmm(left[:, tile], right.mT, out=room[: heads * n * keys].view(heads, n, keys))
        grad_a0 *= p[:, tile]
        grad_q[:, tile] = grad_a0 @ k
        grad_k.baddbmm_(grad_a0.mT, q[:, tile])
    return grad_q, grad_k


class _Mix(torch.autograd.Function):
    """y = P (w v) / D at one depth; its share of dP leaves as two thin factors.

    q and k are inputs for second derivatives only: in a first backward their gradients come from `_Begin`.
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
    ):
        wv = v * w[..., None]
        y = v.new_empty(*d.shape, v.shape[-1])
        for tile, block in tiling.blocks(p):
            for r in range(0, block.shape[1], MIXED_ROWS):
                rows = slice(tile.rows.start + r, min(tile.rows.start + r + MIXED_ROWS, tile.rows.stop))
                y[tile.heads, rows] = block[:, r : r + MIXED_ROWS] @ wv[tile.heads, : tile.keys]
        inverse = reciprocal_or_zero(d)[..., None]
        y *= inverse
        ctx.save_for_backward(p, inverse, w, v, wv, y, q, k)
        ctx.tiling, ctx.device = tiling, v.device.type
        return y

    @staticmethod
    @_in_full_precision
    def backward(ctx, grad: Tensor):  # pyright: ignore
        p, inverse, w, v, wv, y, q, k = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _differentiable_backward(grad, q, k, w, v, ctx.tiling)
        left = grad * inverse
        grad_d = -(left * y).sum(-1)
        grad_wv = v.new_zeros(len(v), v.shape[2], v.shape[1])
        for tile, block in ctx.tiling.blocks(p):
            grad_wv[tile.heads, :, : tile.keys] += left[tile.heads, tile.rows].mT @ block
        grad_wv = grad_wv.mT
        return None, grad_d, (grad_wv * v).sum(-1), grad_wv * w[..., None], left, wv, None, None, None


def _differentiable_backward(grad: Tensor, q: Tensor, k: Tensor, w: Tensor, v: Tensor, tiling: Tiling):
    """The gradients of one depth as a graph of their own, complete in q, k, w and v: `_Begin` has nothing to add."""
    whole = Tile(slice(0, len(q)), slice(0, q.shape[1]), k.shape[1])
    masked = torch.zeros(len(q), q.shape[1], k.shape[1], dtype=q.dtype, device=q.device)
    tiling.mask_(masked, whole, 0)
    p = (q @ k.mT).masked_fill(masked < 0, torch.finfo(q.dtype).min).softmax(-1).masked_fill(masked < 0, 0.0)
    y = (p @ (v * w[..., None])) * reciprocal_or_zero(p @ w[..., None])
    wanted = [t for t in (q, k, w, v) if t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    grad_q, grad_k, grad_w, grad_v = (next(found) if t.requires_grad else None for t in (q, k, w, v))
    return None, None, grad_w, grad_v, None, None, grad_q, grad_k, None


class OnceEvolution(Evolution):
    def __init__(self, initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None):
        self.initial = initial
        self.dtype = at_least_float32(initial.queries.dtype)
        self.tiling = tiling(initial)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.w = _weights(initial, drift, self.dtype)
            self.q, self.k = self._flat(initial.scaled_queries), self._flat(initial.head_keys)
            self.p, self.d, *slots = _Begin.apply(
                self.q, self.k, self.w, initial.depth, initial.value_part, self.tiling
            )
        self.left, self.right = slots[: initial.depth], slots[initial.depth :]

    def _flat(self, x: Float[Tensor, "batch heads n part"]) -> Float[Tensor, "flat n part"]:
        return x.to(self.dtype).flatten(0, 1)

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        at = (l - 1) if self.w.shape[1] > 1 else 0
        slots = (self.left[l - 1], self.right[l - 1])
        with torch.autocast(values.device.type, enabled=False):
            y = _Mix.apply(
                self.p, self.d[:, at], self.w[:, at], self._flat(values), *slots, self.q, self.k, self.tiling
            )
        return y.unflatten(0, (values.shape[0], -1)).to(values.dtype)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return LiteralEvolution(self.initial).attention(l)


def _weights(initial: InitialCondition, drift: Tensor | None, dtype: torch.dtype) -> Float[Tensor, "flat depth k"]:
    """w^l = exp(b^l - max b^l), 0 at padded keys; all ones without drift.

    In causal attention the drift of the first key replaces the maximum, which would leak the future.
    """
    if drift is None:
        batch, keys, _ = initial.keys.shape
        drift = initial.keys.new_zeros(1, batch, initial.heads, keys)
    drift = drift.to(dtype)
    mask = initial.key_padding_mask
    if mask is not None:
        drift = drift.masked_fill(mask[:, None], -torch.inf)
    if not initial.causal:
        level = drift.detach().amax(-1, keepdim=True)
    elif mask is None:
        level = drift.detach()[..., :1]
    else:
        first = (~mask).int().argmax(-1)[None, :, None, None].expand(*drift.shape[:-1], 1)
        level = drift.detach().gather(-1, first)
    w = torch.exp(drift - level.masked_fill(level.isinf(), 0.0))
    return w.permute(1, 2, 0, 3).flatten(0, 1)


def drift_range(initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"]) -> float:
    """The largest max b - min b over the keys of one sequence, head and depth."""
    drift = drift.detach().float()
    if initial.key_padding_mask is None:
        return float((drift.amax(-1) - drift.amin(-1)).max())
    masked = initial.key_padding_mask[:, None]
    highest, lowest = drift.masked_fill(masked, -torch.inf), drift.masked_fill(masked, torch.inf)
    return float((highest.amax(-1) - lowest.amin(-1)).max())


class OnceBackend(ExactBackend):
    name = "once"
    idea = "exponentials once per block, shared by all its depths"
    complexity = "L n^2 d + n^2 exponentials"

    def begin(self, initial: InitialCondition) -> Evolution:
        if torch.compiler.is_compiling():
            return FusedEvolution(initial)
        drift = initial.drift
        limit = SAFE_RANGE / 2 if initial.causal else SAFE_RANGE
        if drift is not None and not drift_range(initial, drift) < limit:
            return FusedEvolution(initial)
        return OnceEvolution(initial, drift)
