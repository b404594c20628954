"""An initialization for few rows: the model starts as a bag of word vectors, and learns the rest on top of that.

The last matrix of every branch is zero, so token vectors pass the encoder unchanged. The vectors come from
co-occurrence, the pooling weights from document frequencies, and the last dimensions of each vector, one per class,
from naive Bayes. All systems are initialized by the same functions, so that a comparison is fair.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import nn
from transformers import PreTrainedModel

from ..evolution.attention import EvolvedAttention
from ..evolution.feedforward import FullFeedForward, RandomFeedForward, RotationLinear
from ..peers.base import Mixer
from .bigrams import BigramWeights
from .embedding import TokenEmbedding
from .pooling import PoolingHead


def branch_outputs(model: nn.Module) -> Iterator[Any]:
    """The last learned factor of every branch: output projections, second matrices of feed-forwards.

    A mixer without an output projection, such as FNet's, has none.
    """
    for module in model.modules():
        if isinstance(module, EvolvedAttention):
            yield from (linear.weight for linear in module.output)
        elif isinstance(module, Mixer):
            output = getattr(module, "output", None)
            if isinstance(output, nn.Linear):
                yield output.weight
        elif isinstance(module, FullFeedForward | RandomFeedForward):
            last = module.linear_2
            yield last.singular_values if isinstance(last, RotationLinear) else last.weight


@torch.no_grad()
def zero_branches(model: nn.Module) -> None:
    """Sets the last matrix of every branch to zero, so that its output is zero at first."""
    for weight in branch_outputs(model):
        weight.zero_()


@torch.no_grad()
def set_vectors(embedding: TokenEmbedding, vectors: Float[np.ndarray, "vocab width"], first: int = 0) -> None:
    """Copies vectors into the embedding's dimensions from `first` on, except rows of zeros."""
    rows = np.flatnonzero(np.abs(vectors).sum(1))
    known = torch.from_numpy(vectors[rows]).to(embedding.weight)
    embedding.weight[torch.from_numpy(rows), first : first + vectors.shape[1]] = known


@torch.no_grad()
def set_class_weights(embedding: TokenEmbedding, weights: Float[np.ndarray, "vocab classes"], scale: float) -> None:
    """Copies the class weights of each token into the last dimensions, `scale` times as large as the others."""
    classes = weights.shape[1]
    known = np.abs(weights).sum(1) > 0
    if classes == 0 or not known.any():
        return
    size = float(np.sqrt((weights[known] ** 2).mean()))
    scaled = torch.from_numpy(weights) * (scale / size / math.sqrt(embedding.embedding_dim))
    embedding.weight[:, -classes:] = scaled.to(embedding.weight)


@torch.no_grad()
def read_class_weights(head: PoolingHead, scale: float) -> None:
    """Makes the head read only the class dimensions: the initial model is naive Bayes."""
    classifier = head.classifier
    classes = classifier.out_features
    classifier.weight.zero_()
    classifier.weight[:, -classes:] = scale * torch.eye(classes, dtype=classifier.weight.dtype)


@torch.no_grad()
def set_pairs(bigrams: BigramWeights, pairs: Int[np.ndarray, "pairs 2"]) -> None:
    """Gives slots to pairs, each to the first pair that has its hash."""
    slots, numbers = bigrams.places(*torch.from_numpy(pairs).T)
    owned, first = np.unique(slots.numpy(), return_index=True)
    bigrams.owner[torch.from_numpy(owned)] = numbers[torch.from_numpy(first)]


@torch.no_grad()
def start_as_bag(
    model: PreTrainedModel,
    vectors: Float[np.ndarray, "vocab width"],
    classes: Float[np.ndarray, "vocab classes"],
    log_idf: Float[np.ndarray, " vocab"],
    seen: Bool[np.ndarray, " vocab"],
    pairs: Int[np.ndarray, "pairs 2"],
    class_scale: float = 1.0,
    head_scale: float = 1.0,
) -> None:
    """Initializes a classifier of any system as a bag of vectors, with the fields of `data.bag_start.BagStart`.

    Weighted pooling and unseen tokens are skipped if the configuration does not use them.
    """
    embedding = model.get_input_embeddings()
    assert isinstance(embedding, TokenEmbedding)
    zero_branches(model)
    set_vectors(embedding, vectors)
    head = getattr(model, "head", None)
    weighted = isinstance(head, PoolingHead) and head.token_weight is not None
    # Pooling multiplies by exp(log_idf): divided by it, the pooled dimensions are naive Bayes' sums, up to layer norm.
    set_class_weights(embedding, classes / np.exp(log_idf)[:, None] if weighted else classes, class_scale)
    if embedding.seen is not None:
        embedding.seen.copy_(torch.from_numpy(seen))
    if isinstance(head, PoolingHead):
        if head.token_weight is not None:
            head.token_weight.copy_(torch.from_numpy(log_idf))
        if classes.shape[1] == head.classifier.out_features:
            read_class_weights(head, head_scale)
        if head.bigrams is not None:
            set_pairs(head.bigrams, pairs)
