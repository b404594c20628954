"""Dynamic int8 on a CPU: weights with a scale per row, activations quantized dynamically, by PyTorch's kernels.

Linear layers, embeddings and the output projection are quantized; norms, depths and biases stay as they are. A weight
that is shared, as between embedding and output, stays shared. Random rotations are folded into one matrix first; they
are drawn again when a model is loaded, so they are not stored.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.ao.quantization.observer import PerChannelMinMaxObserver
from transformers import PreTrainedModel

from ..core.private import cpu_has_vnni
from ..evolution.feedforward import GlorotLinear, RotationLinear
from ..evolution.linear import Linear
from .embedding import TokenEmbedding

LINEAR, EMBEDDING = (nn.Linear, Linear, GlorotLinear), (nn.Embedding, TokenEmbedding)
SCALE = "scale"


@contextmanager
def _supported() -> Iterator[None]:
    """Hides the warning that quantized tensors will change in a later version of PyTorch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        yield


@contextmanager
def _engine() -> Iterator[None]:
    """Packs weights for oneDNN where the CPU has VNNI, else for PyTorch's default."""
    before = torch.backends.quantized.engine
    if cpu_has_vnni():
        torch.backends.quantized.engine = "onednn"
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


class Int8Matrix(nn.Module):
    """A matrix as int8 with a scale per row."""

    weight: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor):
        super().__init__()
        observer = PerChannelMinMaxObserver(0, dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
        observer(weight.detach().float())
        scales, zeros = observer.calculate_qparams()
        with _supported():
            found = torch.quantize_per_channel(weight.detach().float(), scales.double(), zeros, 0, torch.qint8)
        self.register_buffer("weight", found.int_repr())
        self.register_buffer(SCALE, scales.float())

    def quantized(self) -> Tensor:
        zeros = torch.zeros(len(self.scale), dtype=torch.long)
        with _supported():
            return torch.quantize_per_channel(
                self.weight.float() * self.scale[:, None], self.scale.double(), zeros, 0, torch.qint8
            )


class Int8Linear(Int8Matrix):
    """`nn.Linear` on PyTorch's int8 kernels, oneDNN's if the CPU has VNNI. Without it 8-bit products could overflow, so
    activations have 7 bits."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        super().__init__(weight)
        self.out_features, self.in_features = weight.shape
        self.bias = None if bias is None else nn.Parameter(bias.detach().float(), requires_grad=False)
        self._packed: Any = None

    def forward(self, x: Tensor) -> Tensor:
        return self._multiply(torch.ops.quantized.linear_dynamic, x)

    def relu(self, x: Tensor) -> Tensor:
        """relu(forward(x)), in one kernel."""
        return self._multiply(torch.ops.quantized.linear_relu_dynamic, x)

    def _multiply(self, kernel: Any, x: Tensor) -> Tensor:
        if self._packed is None:
            with _engine():
                self._packed = torch.ops.quantized.linear_prepack(self.quantized(), self.bias)
        return kernel(x.float(), self._packed, reduce_range=not cpu_has_vnni())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}


class Int8Embedding(Int8Matrix):
    """`nn.Embedding`, or `TokenEmbedding` without its dropout."""

    seen: Tensor | None

    def __init__(self, embedding: nn.Embedding):
        super().__init__(embedding.weight)
        self.num_embeddings, self.embedding_dim = embedding.weight.shape
        own = isinstance(embedding, TokenEmbedding)
        self.factor = math.sqrt(self.embedding_dim) if own else 1.0
        self.position_scale = embedding.position_scale if own else 1.0
        self.register_buffer("seen", embedding.seen if own else None)

    def forward(self, input: Tensor) -> Tensor:
        return self.weight[input].float() * (self.scale[input] * self.factor)[..., None]


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Quantizes a model in place; it can then be used, and no longer trained."""
    model.eval()
    shared: dict[int, Int8Matrix] = {}
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            made = _int8(child)
            if made is None:
                continue
            weight = getattr(child, "weight", None)
            if isinstance(weight, Tensor):
                first = shared.setdefault(id(weight), made)
                made.weight, made.scale = first.weight, first.scale
            setattr(parent, name, made)
    return model


def _int8(module: nn.Module) -> Int8Matrix | None:
    if type(module) in LINEAR:
        module = cast(nn.Linear, module)
        return Int8Linear(module.weight, module.bias)
    if isinstance(module, RotationLinear):
        return Int8Linear(module.weight().mT, module.bias)
    if type(module) in EMBEDDING:
        return Int8Embedding(cast(nn.Embedding, module))
    return None


def is_int8(model: PreTrainedModel) -> bool:
    return any(isinstance(module, Int8Matrix) for module in model.modules())


def int8_weights(floats: PreTrainedModel, model: PreTrainedModel) -> dict[str, Tensor]:
    """The tensors to store for a quantized model, by their names in the original: int8 weights with their scales, and
    all other weights unchanged. A shared weight is stored once."""
    made = {name: module for name, module in model.named_modules() if isinstance(module, Int8Matrix)}
    stored: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in floats.state_dict(keep_vars=True).items():
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        owner, _, last = name.rpartition(".")
        if owner in made and last == "weight":
            stored[name], stored[f"{owner}.{SCALE}"] = made[owner].weight, made[owner].scale
        else:
            stored[name] = tensor.detach()
    return {name: tensor.contiguous() for name, tensor in stored.items()}


def float_weights(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The stored weights, dequantized to float32."""
    found = {}
    for name, tensor in stored.items():
        scale = stored.get(f"{name.removesuffix('.weight')}.{SCALE}")
        if tensor.dtype == torch.int8 and scale is not None:
            found[name] = tensor.float() * scale[:, None]
        elif not (name.endswith(f".{SCALE}") and f"{name.removesuffix(SCALE)}weight" in stored):
            found[name] = tensor
    return found


def restore(model: PreTrainedModel, stored: dict[str, Tensor]) -> PreTrainedModel:
    """Quantizes a model that contains `float_weights(stored)`, with exactly the stored int8 weights and scales."""
    quantize(model)
    for name, module in model.named_modules():
        if isinstance(module, Int8Matrix) and f"{name}.{SCALE}" in stored:
            module.weight.copy_(stored[f"{name}.weight"])
            module.scale.copy_(stored[f"{name}.{SCALE}"])
    return model
