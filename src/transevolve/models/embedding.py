"""Token embeddings, N(0, 1/d) times sqrt(d), plus sinusoidal positions computed for any length."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..evolution.dropout import Dropout


def sinusoidal_positions(
    positions: Int[Tensor, "*n"], width: int, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*n width"]:
    """[sin(p / s_j)] ++ [cos(p / s_j)], timescales s_j geometric from 1 to 10,000, as tensor2tensor defines them."""
    half = width // 2
    steps = torch.arange(half, dtype=torch.float64, device=positions.device)
    rates = torch.exp(steps * (-math.log(10_000.0) / max(half - 1, 1)))
    angles = positions.to(torch.float64)[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)


class TokenEmbedding(nn.Embedding):
    """Embeddings scaled to unit variance; in training, some of their entries dropped.

    `seen`, if there is one, marks the tokens of the training texts; the others count as padding.
    """

    seen: Tensor | None

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        dropout: float = 0.0,
        position_scale: float = 1.0,
        drop_unseen: bool = False,
    ):
        super().__init__(vocab_size, hidden_size)
        self.dropout = Dropout(dropout)
        self.position_scale = position_scale
        self.register_buffer("seen", torch.ones(vocab_size, dtype=torch.bool) if drop_unseen else None)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, input: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.dropout(super().forward(input) * math.sqrt(self.embedding_dim))


def add_positions(
    x: Float[Tensor, "batch n d"], positions: Int[Tensor, "*batch n"], scale: float = 1.0
) -> Float[Tensor, "batch n d"]:
    waves = sinusoidal_positions(positions, x.shape[2], x.dtype)
    return x + (waves if scale == 1.0 else waves * scale)


def token_embedding(config: Any) -> TokenEmbedding:
    """The embedding that a model's configuration describes."""
    shape = (config.vocab_size, config.hidden_size)
    return TokenEmbedding(*shape, config.embedding_dropout, config.position_scale, config.drop_unseen)
