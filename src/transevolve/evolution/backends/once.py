"""`once`: exponentials once per block, shared by all its depths. Exact.

    P = Softmax(A0),  w^l = exp(b^l - max b^l):      Softmax(A0 + b^l) = P_ij w^l_j / D^l_i,   D^l = P w^l

A depth costs one product with P. The normalisers D of all depths come from one product at the start. In backward the
gradient of P would be L matrices as large as P; instead each depth hands back the two thin factors of its share, and

    dP = [g^1 .. g^L, gD] [w^1 v^1 .. w^L v^L, w]^T

is formed in row tiles at the very end, where dA0 = dP * P is consumed at once. (Softmax's own backward,
P * (dP - rowsum), needs no row sum here: depths do not see the scale of a row, so the sum is zero.)

P is cut into tiles, one for each group of rows and sequences that sees the same keys: what causality or padding hides
at the end of a tile is never computed.

If the drift spans more than `SAFE_RANGE` over the keys, w^l might underflow: `fused` takes over, exact at any range.
"""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..initial import InitialCondition
from .backend import Evolution, Settings
from .fused import FusedEvolution
from .literal import LiteralEvolution
from .pool import POOL

COMPLEXITY = "L n^2 d + n^2 exponentials"
SAFE_RANGE = 50.0
CAUSAL_ROWS = 256
WORTH_CUTTING = 2**19
CACHED = 2**21
MIXED_ROWS = 512


class Tile(NamedTuple):
    """A range of the flattened (batch, heads), a range of queries, and how many keys these may see."""

    heads: slice
    rows: slice
    keys: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.heads.stop - self.heads.start, self.rows.stop - self.rows.start, self.keys)


def plan(batch: int, heads: int, queries: int, keys: int, lengths: list[int] | None, causal: bool) -> list[Tile]:
    """Tiles that cover all visible scores; only one, where cutting would save little."""
    groups = [(slice(0, batch * heads), keys)]
    if lengths is not None and heads * queries * (keys * batch - sum(lengths)) >= batch * WORTH_CUTTING:
        groups = [(slice(b * heads, (b + 1) * heads), max(1, n)) for b, n in enumerate(lengths)]
    step = CAUSAL_ROWS if causal and queries >= 2 * CAUSAL_ROWS else queries
    return [
        Tile(group, slice(r, min(r + step, queries)), min(n, r + step) if causal else n)
        for group, n in groups
        for r in range(0, queries, step)
    ]


class Problem(NamedTuple):
    """What stays fixed over a block: the tiles, which keys are real, whether order matters, which queries are blind."""

    tiles: list[Tile]
    hidden: Tensor | None
    causal: bool
    blind: Tensor | None

    def blocks(self, p: Tensor) -> Iterator[tuple[Tile, Tensor]]:
        """Each tile with its (heads, rows, keys) part of the flat buffer."""
        start = 0
        for tile in self.tiles:
            heads, rows, keys = tile.shape
            yield tile, p[start : start + heads * rows * keys].view(heads, rows, keys)
            start += heads * rows * keys

    def hide(self, scores: Tensor, tile: Tile, first: int) -> None:
        """Scores that heads from `first` on may not see, as low as they go."""
        lowest = torch.finfo(scores.dtype).min
        if self.hidden is not None:
            scores.masked_fill_(self.hidden[first : first + len(scores), None, : tile.keys], lowest)
        if self.causal:
            rows = torch.arange(tile.rows.start, tile.rows.stop, device=scores.device)
            scores.masked_fill_(torch.arange(tile.keys, device=scores.device) > rows[:, None], lowest)


def _at_once(block: Tensor) -> int:
    """Heads worked on together: as many as fit the cache but one a thread at least, all of them on an accelerator."""
    heads, rows, keys = block.shape
    return max(torch.get_num_threads(), CACHED // (rows * keys)) if block.device.type == "cpu" else heads


def _in_full_precision(backward: Callable) -> Callable:
    """Backward as forward: without autocast, even where the caller has it on."""

    @functools.wraps(backward)
    def run(ctx, *grads):
        with torch.autocast(ctx.device, enabled=False):
            return backward(ctx, *grads)

    return once_differentiable(run)


class _Begin(torch.autograd.Function):
    """q, k, w -> P (one flat buffer), D, and for each depth two slots through which its share of dP comes back."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, w: Tensor, depth: int, part: int, problem: Problem):
        count = sum(heads * rows * keys for heads, rows, keys in (tile.shape for tile in problem.tiles))
        p = POOL.take(count, q.dtype, q.device)
        d = w.new_empty(len(w), w.shape[1], q.shape[1])
        for tile, block in problem.blocks(p):
            step = _at_once(block)
            for i in range(0, len(block), step):
                first = tile.heads.start + i
                heads = slice(first, min(first + step, tile.heads.stop))
                scores = block[i : i + step]
                torch.bmm(q[heads, tile.rows], k[heads, : tile.keys].mT, out=scores)
                problem.hide(scores, tile, first)
                torch.softmax(scores, -1, out=scores)
                d[heads, :, tile.rows] = w[heads, :, : tile.keys] @ scores.mT
        if problem.blind is not None:
            d.masked_fill_(problem.blind[:, None], 0.0)
        ctx.save_for_backward(q, k, w, p)
        ctx.problem, ctx.device = problem, q.device.type
        ctx.mark_non_differentiable(p)
        ctx.set_materialize_grads(False)
        slots = [q.new_zeros(()).expand(len(q), side, part) for side in (q.shape[1], k.shape[1]) for _ in range(depth)]
        return p, d, *slots

    @staticmethod
    @_in_full_precision
    def backward(ctx, _, grad_d: Tensor | None, *slots: Tensor | None):  # pyright: ignore
        q, k, w, p = ctx.saved_tensors
        depth = len(slots) // 2
        used = [l for l in range(depth) if slots[l] is not None]
        if grad_d is None or not used:
            return None, None, None, None, None, None
        left = torch.cat([*(slots[l] for l in used), grad_d.mT], -1)
        right = torch.cat([*(slots[depth + l] for l in used), w.mT], -1)
        grad_q, grad_k, grad_w = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(w)
        for tile, block in ctx.problem.blocks(p):
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
    """y = P (w v) / D at one depth; its share of dP leaves as two thin factors."""

    @staticmethod
    def forward(ctx, p: Tensor, d: Tensor, w: Tensor, v: Tensor, left: Tensor, right: Tensor, problem: Problem):
        wv = v * w[..., None]
        y = v.new_empty(*d.shape, v.shape[-1])
        for tile, block in problem.blocks(p):
            for r in range(0, block.shape[1], MIXED_ROWS):
                rows = slice(tile.rows.start + r, min(tile.rows.start + r + MIXED_ROWS, tile.rows.stop))
                y[tile.heads, rows] = block[:, r : r + MIXED_ROWS] @ wv[tile.heads, : tile.keys]
        inverse = torch.where(d > 0, 1 / d, 0.0)[..., None]
        y *= inverse
        ctx.save_for_backward(p, inverse, w, v, wv, y)
        ctx.problem, ctx.device = problem, v.device.type
        return y

    @staticmethod
    @_in_full_precision
    def backward(ctx, grad: Tensor):  # pyright: ignore
        p, inverse, w, v, wv, y = ctx.saved_tensors
        left = grad * inverse
        grad_d = -(left * y).sum(-1)
        grad_wv = v.new_zeros(len(v), v.shape[2], v.shape[1])
        for tile, block in ctx.problem.blocks(p):
            grad_wv[tile.heads, :, : tile.keys] += left[tile.heads, tile.rows].mT @ block
        grad_wv = grad_wv.mT
        return None, grad_d, (grad_wv * v).sum(-1), grad_wv * w[..., None], left, wv, None


class OnceEvolution(Evolution):
    """`part` is the width of a head's values: half of that of its queries, unless given."""

    def __init__(
        self, initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"] | None, part: int | None = None
    ):
        self.initial = initial
        self.batch, _, wide = initial.queries.shape
        self.dtype = torch.promote_types(initial.queries.dtype, torch.float32)
        self.problem = _problem(initial)
        with torch.autocast(initial.queries.device.type, enabled=False):
            self.w = _weights(initial, drift, self.dtype)
            q, k = self._flat(initial.scaled_queries), self._flat(initial.head_keys)
            part = part or wide // initial.heads // 2
            self.p, self.d, *slots = _Begin.apply(q, k, self.w, initial.depth, part, self.problem)
        self.left, self.right = slots[: initial.depth], slots[initial.depth :]

    def _flat(self, x: Float[Tensor, "batch heads n part"]) -> Float[Tensor, "flat n part"]:
        return x.to(self.dtype).flatten(0, 1)

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        at = (l - 1) if self.w.shape[1] > 1 else 0
        with torch.autocast(values.device.type, enabled=False):
            y = _Mix.apply(
                self.p,
                self.d[:, at],
                self.w[:, at],
                self._flat(values),
                self.left[l - 1],
                self.right[l - 1],
                self.problem,
            )
        return y.unflatten(0, (self.batch, -1)).to(values.dtype)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return LiteralEvolution(self.initial).attention(l)


def _problem(initial: InitialCondition) -> Problem:
    batch, queries, _ = initial.queries.shape
    keys, heads, mask = initial.keys.shape[1], initial.heads, initial.key_mask
    if mask is None:
        return Problem(plan(batch, heads, queries, keys, None, initial.causal), None, initial.causal, None)
    places = torch.arange(1, keys + 1, device=mask.device)
    lengths, counts = (mask * places).amax(1).tolist(), mask.sum(1).tolist()
    tiles = plan(batch, heads, queries, keys, lengths, initial.causal)
    cut = tiles[0].heads.stop == heads and batch > 1
    hidden = None if cut and lengths == counts else (~mask).repeat_interleave(heads, 0)
    blind = None
    if initial.causal:
        sighted = initial.sighted()
        assert sighted is not None
        blind = (~sighted).repeat_interleave(heads, 0)
    return Problem(tiles, hidden, initial.causal, blind)


def _weights(initial: InitialCondition, drift: Tensor | None, dtype: torch.dtype) -> Float[Tensor, "flat depth k"]:
    """w^l = exp(b^l - max b^l) over real keys, 0 at the others; all ones where nothing drifts.

    In causal attention the first key's drift stands for the maximum, which would tell of the future.
    """
    if drift is None:
        batch, keys, _ = initial.keys.shape
        drift = initial.keys.new_zeros(1, batch, initial.heads, keys)
    drift = drift.to(dtype)
    mask = initial.key_mask
    if mask is not None:
        drift = drift.masked_fill(~mask[:, None], -torch.inf)
    if not initial.causal:
        level = drift.detach().amax(-1, keepdim=True)
    elif mask is None:
        level = drift.detach()[..., :1]
    else:
        first = mask.int().argmax(-1)[None, :, None, None].expand(*drift.shape[:-1], 1)
        level = drift.detach().gather(-1, first)
    w = torch.exp(drift - level.masked_fill(level.isinf(), 0.0))
    return w.permute(1, 2, 0, 3).flatten(0, 1)


def drift_range(initial: InitialCondition, drift: Float[Tensor, "depth batch heads k"]) -> float:
    """max b - min b over the real keys of one sequence, head and depth: the largest there is."""
    drift = drift.detach().float()
    if initial.key_mask is None:
        return float((drift.amax(-1) - drift.amin(-1)).max())
    hidden = ~initial.key_mask[:, None]
    highest, lowest = drift.masked_fill(hidden, -torch.inf), drift.masked_fill(hidden, torch.inf)
    return float((highest.amax(-1) - lowest.amin(-1)).max())


def begin(initial: InitialCondition, settings: Settings) -> Evolution:
    if torch.compiler.is_compiling():
        return FusedEvolution(initial)
    drift = initial.drift
    limit = SAFE_RANGE / 2 if initial.causal else SAFE_RANGE
    if drift is not None and not drift_range(initial, drift) < limit:
        return FusedEvolution(initial)
    return OnceEvolution(initial, drift)
