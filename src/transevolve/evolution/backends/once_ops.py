"""`once` in compiled graphs: its two phases as custom operators.

A graph cannot branch on the range of the drift, but an operator can. If the range is too large to factor the drift out
of the softmax, `once_begin` returns normalizers of -1, and each depth computes its own softmax. All results are
contiguous, as the fake implementations declare.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from ..initial import InitialCondition
from ..masks import reciprocal_or_zero, sees_no_key
from .drift import SAFE_RANGE, drift_log_weights, shared_limit
from .literal import ExactEvolution
from .matrix import Matrix
from .products import flat, precision_of
from .shared import attend, attend_backward, average, average_backward
from .tiles import Tile, Tiling

WIDE = -1.0


def _matrix(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool) -> Matrix:
    """With a single tile, since sizes must depend on shapes only."""
    queries, keys = q.shape[1], k.shape[1]
    tile = Tile(slice(0, len(q)), slice(0, queries), keys, keys)
    without = sees_no_key(mask, causal) if causal else None
    return Matrix(q, k, Tiling([tile], mask, causal, without), precision_of(q, queries * keys))


def _range_is_too_large(log_w: Tensor, causal: bool, dtype: torch.dtype) -> bool:
    limit = min(SAFE_RANGE, shared_limit(dtype, log_w.shape[-1]))
    lowest = log_w.masked_fill(log_w.isinf(), torch.inf).amin(-1)
    spread = (log_w.amax(-1) - lowest).max()
    return not bool(spread < (min(limit, SAFE_RANGE / 2) if causal else limit))


def _softmax(q: Tensor, k: Tensor, log_w: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Softmax(q k + log w), exact at any range; zero where a query sees no key."""
    scores = q.to(log_w.dtype) @ k.to(log_w.dtype).mT
    masked = torch.zeros_like(scores, dtype=torch.bool)
    if mask is not None:
        masked = masked | mask[:, None]
    if causal:
        masked = masked | torch.ones_like(masked).triu(1)
    scores = scores + log_w.masked_fill(log_w.isinf(), 0.0)[:, None]
    return scores.masked_fill(masked, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(masked, 0.0)


@torch.library.custom_op("transevolve::once_begin", mutates_args=())
def once_begin(
    q: Tensor, k: Tensor, log_w: Tensor, mask: Tensor | None, causal: bool, depth: int, part: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """P, D, and slots whose gradients are the left and right factors of each depth's share of dP."""
    matrix = _matrix(q, k, mask, causal)
    precision = matrix.precision
    left = q.new_zeros(depth, len(q), q.shape[1], part, dtype=precision.thin)
    right = q.new_zeros(depth, len(q), k.shape[1], part, dtype=precision.thin)
    if _range_is_too_large(log_w, causal, q.dtype):
        d = log_w.new_full((len(q), log_w.shape[1], q.shape[1]), WIDE)
        return q.new_zeros(len(q) * q.shape[1] * k.shape[1]), d, left, right
    p, d = attend(matrix, log_w.exp())
    assert p is not None
    return p, d, left, right


@once_begin.register_fake
def _(q, k, log_w, mask, causal, depth, part):
    thin = precision_of(q, 0).thin
    return (
        q.new_empty(q.shape[0] * q.shape[1] * k.shape[1]),
        log_w.new_empty(q.shape[0], log_w.shape[1], q.shape[1]),
        q.new_empty(depth, q.shape[0], q.shape[1], part, dtype=thin),
        q.new_empty(depth, q.shape[0], k.shape[1], part, dtype=thin),
    )


@torch.library.custom_op("transevolve::once_begin_backward", mutates_args=())
def once_begin_backward(
    grad_d: Tensor,
    left: Tensor,
    right: Tensor,
    q: Tensor,
    k: Tensor,
    log_w: Tensor,
    p: Tensor,
    d: Tensor,
    mask: Tensor | None,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    if bool((d < 0).any()):
        return q.new_zeros(q.shape), k.new_zeros(k.shape), log_w.new_zeros(log_w.shape)
    w, lefts, rights = log_w.exp(), list(left.unbind()), list(right.unbind())
    grad_q, grad_k, grad_w = attend_backward(_matrix(q, k, mask, causal), p, w, lefts, rights, grad_d)
    return grad_q.contiguous(), grad_k.contiguous(), (grad_w * w).contiguous()


@once_begin_backward.register_fake
def _(grad_d, left, right, q, k, log_w, p, d, mask, causal):
    return q.new_empty(q.shape), k.new_empty(k.shape), log_w.new_empty(log_w.shape)


def _begin_context(ctx, inputs, output) -> None:
    q, k, log_w, mask, causal, _, _ = inputs
    p, d, _, _ = output
    ctx.save_for_backward(q, k, log_w, p, d, mask)
    ctx.mark_non_differentiable(p)
    ctx.causal = causal


def _begin_backward(ctx, _, grad_d, left, right):
    q, k, log_w, p, d, mask = ctx.saved_tensors
    grads = once_begin_backward(grad_d, left, right, q, k, log_w, p, d, mask, ctx.causal)
    return *grads, None, None, None, None


once_begin.register_autograd(_begin_backward, setup_context=_begin_context)


@torch.library.custom_op("transevolve::once_mix", mutates_args=())
def once_mix(
    p: Tensor,
    d: Tensor,
    log_w: Tensor,
    v: Tensor,
    left: Tensor,
    right: Tensor,
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """y = P (w v) / D at one depth."""
    if bool((d < 0).any()):
        return (_softmax(q, k, log_w, mask, causal) @ v.to(log_w.dtype)).to(v.dtype)
    return average(_matrix(q, k, mask, causal), p, d, log_w.exp(), v)[0]


@once_mix.register_fake
def _(p, d, log_w, v, left, right, q, k, mask, causal):
    return v.new_empty(v.shape[0], q.shape[1], v.shape[2])


@torch.library.custom_op("transevolve::once_mix_backward", mutates_args=())
def once_mix_backward(
    grad: Tensor,
    p: Tensor,
    d: Tensor,
    log_w: Tensor,
    v: Tensor,
    y: Tensor,
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of D, log w, v, the two slots, q and k; the last two are zero if the drift was factored out."""
    matrix = _matrix(q, k, mask, causal)
    thin = matrix.precision.thin
    grad_q, grad_k = q.new_zeros(q.shape), k.new_zeros(k.shape)
    if bool((d < 0).any()):
        p, grad = _softmax(q, k, log_w, mask, causal), grad.to(log_w.dtype)
        grad_p = grad @ v.to(grad.dtype).mT
        grad_scores = p * (grad_p - (grad_p * p).sum(-1, keepdim=True))
        grad_w, grad_v = grad_scores.sum(1), (p.mT @ grad).to(v.dtype)
        grad_q = (grad_scores @ k.to(grad.dtype)).to(q.dtype)
        grad_k = (grad_scores.mT @ q.to(grad.dtype)).to(k.dtype)
        left = torch.zeros(*y.shape, dtype=thin, device=y.device)
        grad_d, right = d.new_zeros(d.shape), v.new_zeros(v.shape, dtype=thin)
        return grad_d, grad_w.contiguous(), grad_v.contiguous(), left, right, grad_q, grad_k
    w, inverse = log_w.exp(), reciprocal_or_zero(d)[..., None]
    grad_d, grad_w, grad_v, left = average_backward(matrix, p, grad, inverse, w, v, y)
    grad_w, right = grad_w * w, (v * w[..., None]).to(thin)
    of_begin = left.contiguous(), right.contiguous()
    return grad_d.contiguous(), grad_w.contiguous(), grad_v.contiguous(), *of_begin, grad_q, grad_k


@once_mix_backward.register_fake
def _(grad, p, d, log_w, v, y, q, k, mask, causal):
    thin = precision_of(q, 0).thin
    left, right = y.new_empty(y.shape, dtype=thin), v.new_empty(v.shape, dtype=thin)
    return *(x.new_empty(x.shape) for x in (d, log_w, v)), left, right, q.new_empty(q.shape), k.new_empty(k.shape)


def _mix_context(ctx, inputs, output) -> None:
    p, d, log_w, v, _, _, q, k, mask, causal = inputs
    ctx.save_for_backward(p, d, log_w, v, output, q, k, mask)
    ctx.causal = causal


def _mix_backward(ctx, grad):
    p, d, log_w, v, y, q, k, mask = ctx.saved_tensors
    grads = once_mix_backward(grad.contiguous(), p, d, log_w, v, y, q, k, mask, ctx.causal)
    return None, *grads, None, None


once_mix.register_autograd(_mix_backward, setup_context=_mix_context)


class OnceGraphEvolution(ExactEvolution):
    """`once` for a compiled graph."""

    def __init__(self, initial: InitialCondition):
        self.initial = initial
        self.precision = precision_of(initial.queries, 0)
        mask = initial.key_padding_mask
        self.mask = None if mask is None else mask.repeat_interleave(initial.heads, 0)
        with torch.autocast(initial.queries.device.type, enabled=False):
            log_w = drift_log_weights(initial, initial.drift, self.precision.wide)
            self.log_w = log_w.permute(1, 2, 0, 3).flatten(0, 1)
            self.q, self.k = flat(initial.scaled_queries, self.precision), flat(initial.head_keys, self.precision)
            shape = (initial.depth, initial.value_part)
            self.p, self.d, left, right = once_begin(self.q, self.k, self.log_w, self.mask, initial.causal, *shape)
        self.left, self.right = left.unbind(), right.unbind()

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        at = (l - 1) if self.log_w.shape[1] > 1 else 0
        with torch.autocast(values.device.type, enabled=False):
            y = once_mix(
                self.p,
                self.d[:, at],
                self.log_w[:, at],
                flat(values, self.precision),
                self.left[l - 1],
                self.right[l - 1],
                self.q,
                self.k,
                self.mask,
                self.initial.causal,
            )
        return y.unflatten(0, (values.shape[0], -1))
