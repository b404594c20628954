"""Weights for pairs of neighbouring tokens, such as "not good", which a bag of words cannot represent."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..evolution.dropout import Dropout

FACTOR = 1_000_003
SCALE = 30.0
"""Adam's steps are equally large for all weights, and pairs are rare: without this factor they learn too slowly."""


class BigramWeights(nn.Module):
    """Logits from pairs of neighbouring tokens: 30 times the sum of their weights, divided by sqrt(number of tokens).

    The hash of a pair selects its slot. Only the pair that owns the slot has a weight; any other pair counts as zero,
    so that pairs not seen in training do not change a prediction. Initially no slot has an owner.
    """

    owner: Tensor

    def __init__(self, slots: int, num_labels: int, vocab_size: int, dropout: float = 0.0):
        super().__init__()
        self.vocab_size = vocab_size
        self.dropout = Dropout(dropout)
        self.weight = nn.Parameter(torch.zeros(slots, num_labels))
        self.register_buffer("owner", torch.full((slots,), -1))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.owner, -1)

    def places(self, first: Int[Tensor, "*n"], second: Int[Tensor, "*n"]) -> tuple[Tensor, Tensor]:
        """The slot of each pair, and the number that identifies the pair as the owner of a slot."""
        return (first * FACTOR + second) % len(self.owner), first * self.vocab_size + second

    def forward(
        self, input_ids: Int[Tensor, "batch n"], key_padding_mask: Bool[Tensor, "batch n"] | None
    ) -> Float[Tensor, "batch labels"]:
        real = torch.ones_like(input_ids, dtype=torch.bool) if key_padding_mask is None else ~key_padding_mask
        slots, pairs = self.places(_before(input_ids).long(), input_ids.long())
        known = (self.owner[slots] == pairs) & real & _before(real)
        length = real.sum(1, keepdim=True).clamp(min=1).to(self.weight.dtype)
        counted = self.dropout(known.to(self.weight.dtype))
        return SCALE * (counted[:, None] @ nn.functional.embedding(slots, self.weight))[:, 0] / length.sqrt()


def _before(x: Tensor) -> Tensor:
    """The entry before each one of a row; zero for the first."""
    return nn.functional.pad(x, (1, 0))[:, :-1]
