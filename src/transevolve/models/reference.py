"""`load_reference`: weights of the authors' TensorFlow code, as a model under `convention="reference"`.

Paths, as recorded: `encoder.{b}.attention.WQ`, `encoder.{b}.layers.{i}.attn.WO`, `decoder.{b}.cross_attention.WK` ...
Their WQ and WK are (2d, 2d), used as W @ x: columns up to d are Wq or Wk, the rest are Wq~ or Wk~ transposed.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..evolution.attention import EvolvedAttention
from ..evolution.block import DecoderBlock, DecoderDepth, EncoderBlock, EncoderDepth
from ..evolution.feedforward import FullFeedForward, RandomFeedForward
from .config import TransEvolveConfig
from .encoder import TransEvolveModel, TransEvolvePreTrainedModel
from .heads.classification import TransEvolveForSequenceClassification
from .heads.seq2seq import TransEvolveForConditionalGeneration


def load_reference(weights: Mapping[str, np.ndarray], *, heads: int) -> TransEvolvePreTrainedModel:
    """The model with these weights: a classifier, an encoder-decoder or an encoder, depending on their names.

    Random draws (`....ff.linear_1.coeffs`, `.phases`) are stored in the model and its checkpoints.
    """
    reader = _Reader(weights)
    config = _config(reader, heads)
    if reader.has("decoder.0.norm.gamma"):
        model: TransEvolvePreTrainedModel = TransEvolveForConditionalGeneration(config)
    elif reader.has("classifier.kernel"):
        model = TransEvolveForSequenceClassification(config)
    else:
        model = TransEvolveModel(config)
    _fill(reader, model)
    unread = sorted(set(weights) - reader.read)
    if unread:
        raise ValueError(f"weights that belong to no part of the model: {', '.join(unread[:5])}")
    return model.eval()


class _Reader:
    """Returns arrays by path and records which were read."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        self.weights = weights
        self.read: set[str] = set()

    def has(self, path: str) -> bool:
        return path in self.weights

    def count(self, pattern: str) -> int:
        n = 0
        while self.has(pattern.format(n)):
            n += 1
        return n

    def array(self, path: str) -> np.ndarray:
        if path not in self.weights:
            raise KeyError(f"the reference weights lack {path!r}")
        self.read.add(path)
        return np.asarray(self.weights[path])

    def tensor(self, path: str) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.array(path)))


def _config(reader: _Reader, heads: int) -> TransEvolveConfig:
    vocab, hidden = reader.array("embedding").shape
    shape: dict[str, Any] = {
        "num_blocks": reader.count("encoder.{}.norm.gamma"),
        "block_depth": reader.count("encoder.0.layers.{}.attn.WO"),
    }
    if reader.has("decoder.0.norm.gamma"):
        shape["decoder_num_blocks"] = reader.count("decoder.{}.norm.gamma")
        shape["decoder_block_depth"] = reader.count("decoder.0.layers.{}.self_attn.WO")
    if reader.has("classifier.kernel"):
        shape["num_labels"] = max(2, reader.array("classifier.kernel").shape[1])
    random = reader.has("encoder.0.layers.0.ff.linear_1.svals")
    return TransEvolveConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=reader.array("encoder.0.layers.0.ff.linear_1.bias").shape[0],
        feedforward="random" if random else "full",
        row_operators=True,
        rotation_seed=None,
        convention="reference",
        **shape,
    )


@torch.no_grad()
def _fill(reader: _Reader, model: TransEvolvePreTrainedModel) -> None:
    base = cast(TransEvolveModel, model.base_model)
    base.embedding.weight.copy_(reader.tensor("embedding"))
    for b, block in enumerate(cast(Iterable[EncoderBlock], base.encoder.blocks)):
        path = f"encoder.{b}"
        _fill_initial(reader, f"{path}.attention", block.attention)
        for i, depth in enumerate(cast(Iterable[EncoderDepth], block.depths)):
            _fill_depth(reader, f"{path}.layers.{i}", depth)
            _fill_evolved(reader, f"{path}.layers.{i}.attn", block.attention, i, depth.value_norm)
        _fill_norm(reader, f"{path}.norm", block.norm)
    if isinstance(model, TransEvolveForConditionalGeneration):
        for b, block in enumerate(cast(Iterable[DecoderBlock], model.decoder.blocks)):
            path = f"decoder.{b}"
            _fill_initial(reader, f"{path}.self_attention", block.self_attention)
            _fill_initial(reader, f"{path}.cross_attention", block.cross_attention)
            for i, depth in enumerate(cast(Iterable[DecoderDepth], block.depths)):
                layer = f"{path}.layers.{i}"
                _fill_depth(reader, layer, depth)
                _fill_evolved(reader, f"{layer}.self_attn", block.self_attention, i, depth.value_norm)
                _fill_evolved(reader, f"{layer}.cross_attn", block.cross_attention, i, depth.memory_norm)
            _fill_norm(reader, f"{path}.norm", block.norm)
    if isinstance(model, TransEvolveForSequenceClassification):
        _fill_norm(reader, "out_norm", model.head.norm)
        kernel, bias = reader.tensor("classifier.kernel").mT, reader.tensor("classifier.bias")
        if len(kernel) == 1:  # a sigmoid of z is a softmax of (0, z)
            kernel, bias = (torch.cat([torch.zeros_like(t), t]) for t in (kernel, bias))
        model.head.classifier.weight.copy_(kernel)
        model.head.classifier.bias.copy_(bias)


def _fill_initial(reader: _Reader, path: str, attention: EvolvedAttention) -> None:
    d = attention.hidden_size
    query, key = reader.tensor(f"{path}.WQ"), reader.tensor(f"{path}.WK")
    assert attention.temporal_query is not None
    assert attention.temporal_key is not None
    attention.query.weight.copy_(query[:, :d])
    attention.key.weight.copy_(key[:, :d])
    attention.temporal_query.copy_(query[:, d:].mT)
    attention.temporal_key.copy_(key[:, d:].mT)


def _fill_evolved(reader: _Reader, path: str, attention: EvolvedAttention, i: int, norm: nn.LayerNorm) -> None:
    assert attention.depth_weight is not None
    attention.depth_weight[i].copy_(reader.tensor(f"{path}.coeffs"))
    attention.output[i].weight.copy_(reader.tensor(f"{path}.WO").mT)  # pyright: ignore[reportCallIssue]
    _fill_norm(reader, f"{path}.norm", norm)


def _fill_depth(reader: _Reader, path: str, depth: EncoderDepth | DecoderDepth) -> None:
    _fill_norm(reader, f"{path}.ff.norm", depth.feedforward_norm)
    feedforward = depth.feedforward
    for name in ("linear_1", "linear_2"):
        at = f"{path}.ff.{name}"
        linear = getattr(feedforward, name)
        linear.bias.copy_(reader.tensor(f"{at}.bias"))
        if isinstance(feedforward, FullFeedForward):
            linear.weight.copy_(reader.tensor(f"{at}.kernel").mT)
        elif isinstance(feedforward, RandomFeedForward):
            singular = reader.tensor(f"{at}.svals").reshape(-1)
            linear.singular_values.copy_(singular[: len(linear.singular_values)])
            linear.load_draws(reader.array(f"{at}.coeffs"), reader.array(f"{at}.phases"))


def _fill_norm(reader: _Reader, path: str, norm: nn.LayerNorm) -> None:
    norm.weight.copy_(reader.tensor(f"{path}.gamma"))
    norm.bias.copy_(reader.tensor(f"{path}.beta"))
