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


class Segments(nn.Embedding):
    """A vector for each part of a text that separators divide, added to the tokens of the part."""

    def __init__(self, count: int, hidden_size: int, separator: int):
        super().__init__(count, hidden_size)
        self.separator = separator

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, input: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        """A separator belongs to the part that it ends."""
        ends = (input == self.separator).long()
        return super().forward((ends.cumsum(1) - ends).clamp(max=self.num_embeddings - 1))


class TokenEmbedding(nn.Embedding):
    """Embeddings scaled to unit variance; in training, some of their entries dropped."""

    segments: Segments | None = None

    def __init__(self, vocab_size: int, hidden_size: int, dropout: float):
        super().__init__(vocab_size, hidden_size)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, input: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        x = super().forward(input)
        if self.segments is not None:
            x = x + self.segments(input)
        return self.dropout(x * math.sqrt(self.embedding_dim))

    def add_segments(self, count: int, separator: int | None) -> None:
        if count > 1:
            if separator is None:
                raise ValueError(f"type_vocab_size={count} needs sep_token_id, the token that ends a segment")
            self.segments = Segments(count, self.embedding_dim, separator)


def add_positions(x: Float[Tensor, "batch n d"], start: int = 0) -> Float[Tensor, "batch n d"]:
    positions = torch.arange(start, start + x.shape[1], device=x.device)
    return x + sinusoidal_positions(positions, x.shape[2], x.dtype)
