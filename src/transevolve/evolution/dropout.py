"""Dropout with a cheap mask on CPUs: 16 random bits per element cost a third of a float."""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

LEVELS = 2**16


class Dropout(nn.Dropout):
    """`nn.Dropout`; on a CPU the probability is rounded to a multiple of 2^-16, and the scale is adjusted to match."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        if input.device.type != "cpu" or torch.compiler.is_compiling():
            return dropout(input, self.p)
        dropped = min(LEVELS - 1, max(1, round(self.p * LEVELS)))
        count = input.numel()
        bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
        kept = (bits >= dropped - LEVELS // 2).view(input.shape)
        return input * kept.to(input.dtype).mul_(LEVELS / (LEVELS - dropped))
