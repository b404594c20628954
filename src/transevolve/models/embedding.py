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


def _draw(weight: Tensor) -> None:
    """N(0, 1/d); nothing on the meta device, where drawing imports a symbolic shape engine."""
    if not weight.is_meta:
        nn.init.normal_(weight, std=weight.shape[1] ** -0.5)


class Segments(nn.Embedding):
    """A vector per segment of a text, added to its tokens; separators end segments."""

    def __init__(self, count: int, hidden_size: int, separator: int):
        super().__init__(count, hidden_size)
        self.separator = separator

    def reset_parameters(self) -> None:
        _draw(self.weight)

    def forward(self, input: Int[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        """A separator belongs to the segment that it ends."""
        ends = (input == self.separator).long()
        return super().forward((ends.cumsum(1) - ends).clamp(max=self.num_embeddings - 1))


class TokenEmbedding(nn.Embedding):
    """Embeddings scaled to unit variance, with dropout.

    `seen`, if it is not None, marks tokens of the training texts; all others are treated as padding.
    """

    seen: Tensor | None
    segments: Segments | None

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
        self.segments = None
        self.position_scale = position_scale
        self.register_buffer("seen", torch.ones(vocab_size, dtype=torch.bool) if drop_unseen else None)

    def reset_parameters(self) -> None:
        _draw(self.weight)

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


def add_positions(
    x: Float[Tensor, "batch n d"], positions: Int[Tensor, "*batch n"], scale: float = 1.0
) -> Float[Tensor, "batch n d"]:
    waves = sinusoidal_positions(positions, x.shape[2], x.dtype)
    return x + (waves if scale == 1.0 else waves * scale)


def token_embedding(config: Any) -> TokenEmbedding:
    """The embedding of a model, from its configuration."""
    shape = (config.vocab_size, config.hidden_size)
    embedding = TokenEmbedding(*shape, config.embedding_dropout, config.position_scale, config.drop_unseen)
    embedding.add_segments(config.type_vocab_size, config.sep_token_id)
    return embedding
