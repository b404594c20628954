"""`fused`: PyTorch's scaled dot product attention at every depth, with the drift as one more channel. Exact.

    Softmax(A0 + b^l) = Softmax([q/sqrt(d/m), 1] . [k, b^l])

No n x n matrix is formed. Fused kernels want queries, keys and values of one width, a multiple of 8, so all three are
padded to it. A padded key gets a drift far below any score.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ..initial import InitialCondition
from ..masks import sees_no_key
from .backend import Evolution
from .exact import ExactBackend
from .literal import LiteralEvolution

ALIGNMENT = 8


class FusedEvolution(Evolution):
    def __init__(self, initial: InitialCondition):
        self.initial = initial
        self.queries, self.keys = initial.scaled_queries, initial.head_keys
        low = torch.is_autocast_enabled(self.queries.device.type)
        self.dtype = torch.get_autocast_dtype(self.queries.device.type) if low else self.queries.dtype
        self.drift = initial.drift
        self.sees_no_key = sees_no_key(initial.key_padding_mask, initial.causal)
        self.channels = 0 if self.drift is None and initial.key_padding_mask is None else _parts(self.dtype)
        part = self.queries.shape[-1]
        self.width = -(-max(part + self.channels, initial.value_part) // ALIGNMENT) * ALIGNMENT
        ones = self.queries.new_ones(()).expand(*self.queries.shape[:-1], self.channels)
        spare = self.width - part - self.channels
        self.padded_queries = pad(torch.cat([self.queries, ones], -1), (0, spare)).to(self.dtype)

    def _keys(self, l: int) -> Float[Tensor, "batch heads k width"]:
        if not self.channels:
            return pad(self.keys, (0, self.width - self.keys.shape[-1])).to(self.dtype)
        shape = self.keys.shape[:-1]
        drift = self.keys.new_zeros(shape) if self.drift is None else self.drift[l - 1]
        if self.initial.key_padding_mask is not None:
            lowest = torch.finfo(self.dtype).min / 4 if self.dtype == torch.float16 else -1e30
            drift = drift.masked_fill(self.initial.key_padding_mask[:, None], lowest)
        columns = torch.stack(_split(drift.float() if self.channels > 1 else drift, self.channels, self.dtype), -1)
        spare = self.width - self.keys.shape[-1] - self.channels
        return pad(torch.cat([self.keys.to(self.dtype), columns.to(self.dtype)], -1), (0, spare))

    def mix(self, values: Float[Tensor, "batch heads k part"], l: int) -> Float[Tensor, "batch heads q part"]:
        part = values.shape[-1]
        v = pad(values.to(self.dtype), (0, self.width - part))
        y = scaled_dot_product_attention(
            self.padded_queries, self._keys(l), v, is_causal=self.initial.causal, scale=1.0
        )[..., :part].to(values.dtype)
        return y if self.sees_no_key is None else y * (~self.sees_no_key)[:, None, :, None].to(y.dtype)

    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        return LiteralEvolution(self.initial).attention(l)


def _parts(dtype: torch.dtype) -> int:
    """How many numbers of `dtype` hold a float32 drift to its last bit."""
    return {torch.bfloat16: 3, torch.float16: 2}.get(dtype, 1)


def _split(x: Tensor, parts: int, dtype: torch.dtype) -> list[Tensor]:
    """x as a sum of `parts` numbers of `dtype`; the gradient goes to the first alone."""
    if parts == 1:
        return [x]
    found = [x.to(dtype)]
    rest = x.detach() - found[0].detach().float()
    for _ in range(parts - 1):
        found.append(rest.to(dtype))
        rest = rest - found[-1].float()
    return found


class FusedBackend(ExactBackend):
    name = "fused"
    idea = "PyTorch's scaled dot product attention at every depth, the drift as one more channel"
    complexity = "L (n^2 d + n^2 exponentials), memory n"

    def begin(self, initial: InitialCondition) -> FusedEvolution:
        return FusedEvolution(initial)
