"""Token embeddings, N(0, 1/d) times sqrt(d), plus sinusoidal positions computed for any length."""

import math

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
    """Embeddings scaled to unit variance; in training, some of their entries dropped."""

    def __init__(self, vocab_size: int, hidden_size: int, dropout: float):
        super().__init__(vocab_size, hidden_size)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, input: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.dropout(super().forward(input) * math.sqrt(self.embedding_dim))


def add_positions(x: Float[Tensor, "batch n d"], start: int = 0) -> Float[Tensor, "batch n d"]:
    positions = torch.arange(start, start + x.shape[1], device=x.device)
    return x + sinusoidal_positions(positions, x.shape[2], x.dtype)
