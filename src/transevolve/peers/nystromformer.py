"""Nystromformer (Xiong et al., 2021): softmax attention approximated with landmarks, the means of segments.

    Softmax(Q K~^T) pinv(Softmax(Q~ K~^T)) Softmax(Q~ K^T) V + conv(V)

Q and K are scaled by (d/m)^(-1/4), Q~ and K~ are the means of m segments, and pinv is computed by six steps of a
third-order iteration. `conv` is a convolution along the length, one kernel per head.

Differs from the paper: segments divide the non-padding tokens of each sequence, so padding does not move them. The
iteration starts from the norm of each matrix instead of the largest norm in the batch. With no more tokens than
landmarks, each token is a landmark, and attention is exact up to the iteration.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import conv2d

from ..evolution.initial import at_least_float32
from .base import Capabilities, MixerShape
from .heads import Attention, real_tokens
from .settings import Count
from .system import System

STEPS = 6


def pseudo_inverse(a: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """Returns the pseudo-inverse of matrices whose rows are non-negative and sum to one, or are zero."""
    z = a.mT / a.sum(-2, keepdim=True).amax(-1, keepdim=True).clamp(min=torch.finfo(a.dtype).tiny)
    identity = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(STEPS):
        az = a @ z
        z = 0.25 * z @ (13 * identity - az @ (15 * identity - az @ (7 * identity - az)))
    return z


class Nystromformer(Attention):
    capabilities = Capabilities(causal=False, padding=True, fixed_length=False, stochastic=False)

    def __init__(self, shape: MixerShape, landmarks: Count = 64, kernel: Count = 33):
        super().__init__(shape)
        if kernel % 2 == 0:
            raise ValueError(f"system 'nystromformer': kernel must be odd, got {kernel}")
        self.landmarks = landmarks
        self.convolution = nn.Parameter(torch.empty(shape.num_heads, 1, kernel, 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        bound = self.convolution.shape[2] ** -0.5
        nn.init.uniform_(self.convolution, -bound, bound)

    def attend(self, q, k, v, key_padding_mask, causal):
        wide = at_least_float32(q.dtype)
        scale = q.shape[-1] ** -0.25
        if key_padding_mask is not None:
            v = v.masked_fill(key_padding_mask[:, None, :, None], 0.0)
        local = conv2d(v, self.convolution.to(v.dtype), padding=(self.convolution.shape[2] // 2, 0), groups=q.shape[1])
        with torch.autocast(q.device.type, enabled=False):
            q, k, values = q.to(wide) * scale, k.to(wide) * scale, v.to(wide)
            (q_marks, k_marks), empty = self.segment_means(q, k, key_padding_mask)
            ignored = None if key_padding_mask is None else key_padding_mask[:, None, None]
            from_marks = _softmax(q_marks @ k.mT, ignored) @ values
            between = _softmax(q_marks @ k_marks.mT, empty)
            if empty is not None:
                between = between.masked_fill(empty.mT, 0.0)
            mixed = _softmax(q @ k_marks.mT, empty) @ (pseudo_inverse(between) @ from_marks)
        return mixed.to(v.dtype) + local

    def segment_means(
        self, q: Tensor, k: Tensor, key_padding_mask: Bool[Tensor, "batch n"] | None
    ) -> tuple[list[Tensor], Bool[Tensor, "batch 1 1 landmarks"] | None]:
        """Returns the landmarks of queries and keys, and a mask of those without tokens."""
        n, marks = q.shape[2], self.landmarks
        if key_padding_mask is None and not torch.compiler.is_compiling() and n % marks == 0:
            return [t.unflatten(2, (marks, -1)).mean(3) for t in (q, k)], None
        real = real_tokens(q, key_padding_mask)
        rank, total = real.cumsum(-1) - 1, real.sum(-1, keepdim=True)
        segment = torch.div(rank * marks, total.clamp(min=1), rounding_mode="floor").clamp(min=0)
        member = (segment[:, None] == torch.arange(marks, device=q.device)[:, None]) & real[:, None]
        count = member.sum(-1, keepdim=True)
        mean = (member.to(q.dtype) / count.clamp(min=1))[:, None]
        return [mean @ t for t in (q, k)], (count == 0)[:, None].mT


def _softmax(scores: Tensor, ignored: Tensor | None) -> Tensor:
    if ignored is None:
        return scores.softmax(-1)
    return scores.masked_fill(ignored, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(ignored, 0.0)


NYSTROMFORMER = System(
    "nystromformer",
    "Xiong et al., Nystromformer, AAAI 2021",
    "n m d, m landmarks",
    "eager",
    Nystromformer.capabilities,
    Nystromformer,
)
