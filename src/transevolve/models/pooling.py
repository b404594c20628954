"""From token vectors to logits: a mean over the real tokens, plain or weighted, layer norm, linear."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..evolution.feedforward import GlorotLinear
from .bigrams import BigramWeights


def masked_mean(
    x: Float[Tensor, "batch n d"], key_padding_mask: Bool[Tensor, "batch n"] | None
) -> Float[Tensor, "batch d"]:
    """The mean over real tokens; zero for a sequence without any."""
    if key_padding_mask is None:
        return x.mean(1)
    real = (~key_padding_mask)[..., None].to(x.dtype)
    return (x * real).sum(1) / real.sum(1).clamp(min=1)


def weighted_mean(
    x: Float[Tensor, "batch n d"],
    log_weight: Float[Tensor, "batch n"],
    key_padding_mask: Bool[Tensor, "batch n"] | None,
) -> Float[Tensor, "batch d"]:
    """The mean over real tokens weighted by exp(log_weight); zero for a sequence without any."""
    if key_padding_mask is not None:
        log_weight = log_weight.masked_fill(key_padding_mask, -torch.inf)
    highest = log_weight.detach().amax(1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    weight = torch.exp(log_weight - highest)
    total = weight.sum(1, keepdim=True)
    return (weight[:, None] @ x)[:, 0] / total.masked_fill(total == 0, 1.0)


class PoolingHead(nn.Module):
    """Masked mean, layer norm, linear: from token vectors to logits.

    With a vocabulary the mean is weighted by exp(w[token]), with w learned and initially zero. The logits of `bigrams`,
    if not None, are added.
    """

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        eps: float,
        vocab_size: int | None = None,
        bigrams: BigramWeights | None = None,
    ):
        super().__init__()
        self.token_weight = None if vocab_size is None else nn.Parameter(torch.zeros(vocab_size))
        self.norm = nn.LayerNorm(hidden_size, eps=eps)
        self.classifier = GlorotLinear(hidden_size, num_labels)
        self.bigrams = bigrams

    def reset_parameters(self) -> None:
        if self.token_weight is not None:
            nn.init.zeros_(self.token_weight)
        if self.bigrams is not None:
            self.bigrams.reset_parameters()

    def forward(
        self,
        x: Float[Tensor, "batch n d"],
        key_padding_mask: Tensor | None,
        input_ids: Int[Tensor, "batch n"] | None = None,
    ) -> Float[Tensor, "batch labels"]:
        if input_ids is None and (self.token_weight is not None or self.bigrams is not None):
            raise ValueError("a head with pooling='weighted' or bigrams needs input_ids, not inputs_embeds")
        weight = None if self.token_weight is None else self.token_weight[input_ids]
        pooled = masked_mean(x, key_padding_mask) if weight is None else weighted_mean(x, weight, key_padding_mask)
        logits = self.classifier(self.norm(pooled))
        return logits if self.bigrams is None else logits + self.bigrams(input_ids, key_padding_mask)


def pooling_head(config: Any) -> PoolingHead:
    """The head of a classifier, from its configuration."""
    vocab_size = config.vocab_size if config.pooling == "weighted" else None
    labels = config.num_labels or 1
    bigrams = None
    if config.bigrams:
        bigrams = BigramWeights(config.bigrams, labels, config.vocab_size, config.embedding_dropout)
    return PoolingHead(config.hidden_size, labels, config.resolved_eps, vocab_size, bigrams)
