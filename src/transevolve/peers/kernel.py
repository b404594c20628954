"""Attention with a kernel that factorizes, sim(q, k) = phi(q) . phi(k): linear in the length.

    y_i = phi(q_i) S / (phi(q_i) . z),    S = sum_j phi(k_j) v_j^T,    z = sum_j phi(k_j)

over all keys j, or over j <= i in chunks: a lower triangle within each chunk, plus the sums of earlier chunks.
"""

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from ..evolution.masks import reciprocal_or_zero
from .heads import real_tokens

CHUNK = 64


def kernel_attention(
    q: Float[Tensor, "batch heads n features"],
    k: Float[Tensor, "batch heads n features"],
    v: Float[Tensor, "batch heads n part"],
    causal: bool,
    least: Float[Tensor, "batch 1 #n 1"] | None = None,
) -> Float[Tensor, "batch heads n part"]:
    """Attention of features phi(q) and phi(k); those of ignored keys are zero. Normalizers are at least `least`."""
    numerator, normalizer = _past(q, k, v) if causal else (q @ (k.mT @ v), q @ k.sum(-2)[..., None])
    if least is not None:
        normalizer = normalizer.maximum(least)
    return numerator * reciprocal_or_zero(normalizer)


def _past(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the numerator and normalizer of each token over itself and earlier tokens."""
    n = q.shape[2]
    q, k, v = (pad(x, (0, 0, 0, -n % CHUNK)).unflatten(2, (-1, CHUNK)) for x in (q, k, v))
    within = (q @ k.mT).tril()
    sums, features = (_earlier(t) for t in (k.mT @ v, k.sum(-2)[..., None]))
    numerator = within @ v + q @ sums
    normalizer = within.sum(-1, keepdim=True) + q @ features
    return numerator.flatten(2, 3)[:, :, :n], normalizer.flatten(2, 3)[:, :, :n]


def _earlier(chunks: Float[Tensor, "batch heads chunks features width"]) -> Tensor:
    """Returns the sum of all chunks before each; a difference of cumulative sums would lose precision."""
    return pad(chunks[:, :, :-1], (0, 0, 0, 0, 1, 0)).cumsum(2)


def without_padding(
    k: Float[Tensor, "batch heads n features"], key_padding_mask: Bool[Tensor, "batch n"] | None
) -> Float[Tensor, "batch heads n features"]:
    return k if key_padding_mask is None else k.masked_fill(key_padding_mask[:, None, :, None], 0.0)


def seen_keys(
    x: Float[Tensor, "batch heads n features"], key_padding_mask: Bool[Tensor, "batch n"] | None, causal: bool
) -> Float[Tensor, "batch 1 #n 1"]:
    """Returns the number of keys that each query sees."""
    real = real_tokens(x, key_padding_mask).to(x.dtype)
    counts = real.cumsum(-1) if causal else real.sum(-1, keepdim=True)
    return counts[:, None, :, None]
