"""Reformer (Kitaev et al., 2020): attention between tokens with the same or a similar random hash.

Queries and keys are shared (K = Q / |Q|). In each round, tokens are hashed to the nearest of random directions and
their opposites, sorted by hash, and split into chunks. A token attends to its own chunk and the previous one, and to
itself only if there is no other key. Rounds are averaged, weighted by their sums of exponentials:

    y_i = sum_r sum_j exp(q_i . k_j) v_j / sum_r sum_j exp(q_i . k_j)

Differs from the paper: layers are not reversible (that saves memory, not time). Directions are drawn from a seed, once
per layer, and a sequence uses as many as it has chunks. The first chunk has no previous chunk; the authors' wraps
around. Not causal: later tokens would influence which earlier tokens share a chunk. Differs from the Long Range Arena's
code: scores are not multiplied by sqrt(d/m), and padding affects neither hashes nor scores.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from ..evolution.initial import at_least_float32, merge_heads, split_heads
from ..evolution.linear import Linear
from ..evolution.masks import reciprocal_or_zero
from .base import Capabilities, Mixer, MixerShape
from .blocks import pad_to_blocks
from .heads import seeded_normal_
from .settings import Count, Seed
from .system import System

SELF_SCORE = -1e4


class Reformer(Mixer):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=False, stochastic=True, export=False)
    directions: Tensor

    def __init__(self, shape: MixerShape, chunk: Count = 64, hashes: Count = 2, seed: Seed = 0):
        super().__init__(shape)
        self.chunk, self.hashes, self.seed = chunk, hashes, shape.draw_seed(seed)
        self.query = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.value = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.output = Linear(shape.hidden_size, shape.hidden_size, bias=False)
        half = max(1, math.ceil(shape.max_length / (2 * chunk)))
        self.register_buffer("directions", torch.empty(shape.num_heads, hashes, shape.part, half))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for linear in (self.query, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
        seeded_normal_(self.directions, self.seed)

    def mix(self, x, key_padding_mask, causal):
        n, heads = x.shape[1], self.shape.num_heads
        x, key_padding_mask = pad_to_blocks(x, key_padding_mask, self.chunk)
        q, v = (split_heads(linear(x), heads) for linear in (self.query, self.value))
        with torch.no_grad():
            order = self.buckets(q, key_padding_mask).argsort(dim=-1, stable=True)
            place = order.argsort(-1)
        ignored = None
        if key_padding_mask is not None:
            ignored = key_padding_mask[:, None, None].expand_as(order).gather(-1, order)
        total, mass = self._attend(q, v, order, place, ignored)
        return self.output(merge_heads((total * reciprocal_or_zero(mass)).to(x.dtype)))[:, :n]

    def buckets(
        self, q: Float[Tensor, "batch heads n part"], key_padding_mask: Bool[Tensor, "batch n"] | None
    ) -> Int[Tensor, "batch heads hashes n"]:
        """Returns the nearest of the `half` directions and their opposites; padding has the last bucket."""
        half = self.directions.shape[-1]
        turned = q[:, :, None] @ self.directions.to(q.dtype)
        count = torch.full((1, 1), q.shape[2], device=q.device)
        if key_padding_mask is not None:
            count = (~key_padding_mask).sum(-1, keepdim=True)
        used = (count + 2 * self.chunk - 1) // (2 * self.chunk)
        unused = torch.arange(half, device=q.device) >= used.clamp(1, half)
        turned = torch.cat([turned, -turned], -1)
        turned = turned.masked_fill(unused.repeat(1, 2)[:, None, None, None], -torch.inf)
        found = turned.argmax(-1)
        return found if key_padding_mask is None else found.masked_fill(key_padding_mask[:, None, None], 2 * half)

    def _attend(
        self, q: Tensor, v: Tensor, order: Tensor, place: Tensor, ignored: Bool[Tensor, "batch heads hashes n"] | None
    ) -> tuple[Tensor, Tensor]:
        """Returns the sums over all rounds of exp(score) v and of exp(score), with a common scale per token."""
        wide = at_least_float32(q.dtype)
        part, chunk = v.shape[-1], self.chunk
        with torch.autocast(q.device.type, enabled=False):
            both = _Sorted.apply(torch.cat([q, v], -1).to(wide), order, place).unflatten(3, (-1, chunk))
            queries, values = both.split(part, -1)
            keys, values = _with_previous(normalize(queries, dim=-1)), _with_previous(pad(values, (0, 1), value=1.0))
            scores = queries @ keys.mT
            self._mask(scores.detach(), ignored)
            highest = scores.detach().amax(-1, keepdim=True).clamp(min=2 * SELF_SCORE)
            sums = scores.sub_(highest).exp_() @ values
            sums = _Unsorted.apply(sums.flatten(3, 4), order, place)
            level = highest.flatten(3).gather(3, place)[..., None]
            sums = (sums * torch.exp(level - level.amax(2, keepdim=True))).sum(2)
        return sums[..., :part], sums[..., part:]

    def _mask(self, scores: Tensor, ignored: Tensor | None) -> None:
        """Masks in place, outside autograd: ignored keys get no weight, and the token itself a very small one."""
        lowest = torch.finfo(scores.dtype).min
        scores.diagonal(self.chunk, -2, -1).fill_(SELF_SCORE)
        scores[:, :, :, 0, :, : self.chunk] = lowest
        if ignored is not None:
            ignored = ignored.unflatten(3, (-1, self.chunk))[..., None]
            scores.masked_fill_(_with_previous(ignored, True).mT, lowest)


def _with_previous(chunks: Tensor, beyond: bool = False) -> Tensor:
    """(batch, heads, hashes, chunks, chunk, part): concatenates each chunk to the previous one."""
    before = pad(chunks[:, :, :, :-1], (0, 0, 0, 0, 1, 0), value=beyond)
    return torch.cat([before, chunks], 4)


class _Sorted(torch.autograd.Function):
    """Sorts rows of (batch, heads, n, width) in the order of each round; backward reverses it without a scatter."""

    @staticmethod
    def forward(ctx, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        batch, heads, n, width = x.shape
        first = torch.arange(0, batch * heads * n, n, device=x.device).view(batch, heads, 1, 1)
        return x.flatten(0, 2).index_select(0, (first + order).flatten()).view(*order.shape, width)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (place,) = ctx.saved_tensors
        return _take(grad, place).sum(2), None, None


class _Unsorted(torch.autograd.Function):
    """Restores the original order of the rows of every round."""

    @staticmethod
    def forward(ctx, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return _take(x, place)

    @staticmethod
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (order,) = ctx.saved_tensors
        return _take(grad, order), None, None


def _take(x: Tensor, index: Int[Tensor, "batch heads hashes n"]) -> Tensor:
    """Gathers rows of (batch, heads, hashes, n, width) by index."""
    *lead, n, width = x.shape
    first = torch.arange(0, index.numel(), n, device=x.device).view(*lead, 1)
    return x.reshape(-1, width).index_select(0, (first + index).flatten()).view(x.shape)


REFORMER = System(
    "reformer",
    "Kitaev et al., Reformer: The Efficient Transformer, ICLR 2020",
    "r n c d, r rounds, chunks of c",
    "eager",
    Reformer.capabilities,
    Reformer,
)
