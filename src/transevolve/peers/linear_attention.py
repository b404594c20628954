"""Linear attention (Katharopoulos et al., 2020): the kernel phi(q) . phi(k) with phi(x) = elu(x) + 1.

Differs from the paper: no epsilon is added to normalizers; if a query sees no key, the output is zero.
"""

import torch
from torch.nn.functional import elu

from ..evolution.initial import at_least_float32
from .base import Capabilities, MixerShape
from .heads import Attention
from .kernel import kernel_attention, without_padding
from .system import System


class LinearAttention(Attention):
    capabilities = Capabilities(causal=True, padding=True, fixed_length=False, stochastic=False)

    def __init__(self, shape: MixerShape):
        super().__init__(shape)
        self.reset_parameters()

    def attend(self, q, k, v, key_padding_mask, causal):
        wide = at_least_float32(q.dtype)
        with torch.autocast(q.device.type, enabled=False):
            features = without_padding(elu(k.to(wide)) + 1, key_padding_mask)
            return kernel_attention(elu(q.to(wide)) + 1, features, v.to(wide), causal).to(v.dtype)


LINEAR_ATTENTION = System(
    "linear-attention",
    "Katharopoulos et al., Transformers are RNNs, ICML 2020",
    "n d^2 / m, m heads",
    "eager",
    LinearAttention.capabilities,
    LinearAttention,
)
