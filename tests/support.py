"""Shared helpers: small layers of every kind, and the recorded weights of the authors' code."""

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from transevolve import EvolvedAttention
from transevolve.evolution.backends import BACKENDS, Backend, ExactBackend, FusedBackend
from transevolve.evolution.backends.fused import FusedEvolution
from transevolve.evolution.backends.stored import StoredBackend

GOLDEN = Path(__file__).parent / "golden"
KINDS = ["self", "causal", "cross"]
CHOOSERS = {"auto"}  # they delegate to another backend
COMPUTING = [name for name in BACKENDS if name not in CHOOSERS]
EXACT = [name for name in COMPUTING if BACKENDS[name].exact]
APPROXIMATE = [name for name in COMPUTING if not BACKENDS[name].exact]


class FusedKernel(FusedBackend):
    """`fused` as on other devices: PyTorch's kernel on a CPU too."""

    name = "fused kernel"
    recomputing = frozenset()


class FusedChannel(ExactBackend):
    """`fused` where a graph cannot branch, or long rows have a wide drift: the drift is a channel of the keys."""

    name, idea, complexity = "fused channel", FusedBackend.idea, FusedBackend.complexity

    def begin(self, initial):
        return FusedEvolution(initial)


FAST = [*(BACKENDS[name] for name in EXACT if name != "literal"), FusedKernel(), FusedChannel(), StoredBackend()]
every_fast_form = pytest.mark.parametrize("backend", FAST, ids=lambda backend: backend.name)


@dataclass
class Case:
    """An attention layer with its inputs: x and memory (None unless cross), a padding mask, values of each depth."""

    layer: EvolvedAttention
    x: Tensor
    memory: Tensor | None
    padding: Tensor | None
    values: list[Tensor]
    causal: bool

    def run(self, backend: str | Backend | None = None) -> Tensor:
        """Every depth's output, stacked."""
        state = self.layer.begin(self.x, self.memory, self.padding, self.causal, backend=backend)
        return torch.stack([self.layer(state, v, l + 1) for l, v in enumerate(self.values)])

    def gradients(self, y: Tensor) -> list[Tensor]:
        """The gradients of a fixed random functional of `y` with respect to every input and parameter."""
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        inputs = [self.x, *([] if self.memory is None else [self.memory]), *self.values, *self.layer.parameters()]
        return list(torch.autograd.grad((y * weights.to(y.dtype)).sum(), inputs))


def make_case(
    kind: str,
    *,
    n: int = 7,
    keys: int = 9,
    batch: int = 3,
    hidden: int = 32,
    heads: int = 4,
    depth: int = 3,
    padded: bool = True,
    dtype: torch.dtype = torch.float32,
    drift: float = 1.0,
    seed: int = 0,
    **options,
) -> Case:
    torch.manual_seed(seed)
    layer = EvolvedAttention(hidden, heads, depth, **options).to(dtype)
    if layer.depth_weight is not None:
        with torch.no_grad():
            layer.depth_weight.mul_(drift)
    cross = kind == "cross"
    keys = keys if cross else n
    x = torch.randn(batch, n, hidden, dtype=dtype, requires_grad=True)
    memory = torch.randn(batch, keys, hidden, dtype=dtype, requires_grad=True) if cross else None
    padding = None
    if padded:
        lengths = torch.randint(1, keys + 1, (batch,))
        lengths[0] = keys
        padding = torch.arange(keys) >= lengths[:, None]
    values = [torch.randn(batch, keys, hidden, dtype=dtype, requires_grad=True) for _ in range(depth)]
    return Case(layer, x, memory, padding, values, kind == "causal")


def reference_weights(recorded: np.lib.npyio.NpzFile, hidden: int, vocab: int) -> dict[str, np.ndarray]:
    """The weights behind a `seeded_*` recording: each drawn from a generator seeded by the CRC of its name."""
    weights = {}
    for name in recorded["chk/names"]:
        name = str(name)
        weights[name] = _seeded(name, _shape(name, hidden, vocab))
        if name.endswith(".svals"):
            path = name.removesuffix(".svals")
            inputs, outputs = (hidden, 4 * hidden) if "linear_1" in name else (4 * hidden, hidden)
            weights[f"{path}.coeffs"] = _draws(f"{path}.coeffs", inputs)
            weights[f"{path}.phases"] = _draws(f"{path}.phases", outputs)
    return weights


def _uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return 2 * np.random.RandomState(zlib.crc32(name.encode())).random_sample(shape) - 1


def _draws(name: str, dim: int) -> np.ndarray:
    return (_uniform(name, (dim, dim // 2)) * (np.sqrt(3) * dim)).astype(np.float32)


def _seeded(name: str, shape: tuple[int, ...]) -> np.ndarray:
    u = _uniform(name, shape)
    if re.fullmatch(r"decoder\.\d+\.norm\.gamma", name):
        return (3 * u).astype(np.float32)
    if name.endswith("gamma"):
        return (1 + 0.3 * u).astype(np.float32)
    n = shape[0]
    limits = [
        (r"embedding", np.sqrt(3 / shape[-1])),
        (r".*(WQ|WK|WO|kernel)", np.sqrt(6 / sum(shape))),
        (r".*attn\.coeffs", np.sqrt(6 / n)),
        (r".*linear_1\.svals", 100 * np.sqrt(6 / n)),
        (r".*linear_2\.svals", 20 * np.sqrt(6 / (n // 4))),
        (r".*(bias|beta)", 0.3),
    ]
    limit = next(value for pattern, value in limits if re.fullmatch(pattern, name))
    return (u * limit).astype(np.float32)


def _shape(name: str, hidden: int, vocab: int, classes: int = 4) -> tuple[int, ...]:
    wide = 4 * hidden
    shapes = [
        (r"embedding", (vocab, hidden)),
        (r".*(WQ|WK)", (2 * hidden, 2 * hidden)),
        (r".*WO", (hidden, hidden)),
        (r"classifier\.kernel", (hidden, classes)),
        (r"classifier\.bias", (classes,)),
        (r".*linear_1\.kernel", (hidden, wide)),
        (r".*linear_2\.kernel", (wide, hidden)),
        (r".*linear_1\.bias", (wide,)),
        (r".*linear_1\.svals", (hidden, 1)),
        (r".*linear_2\.svals", (wide, 1)),
        (r".*", (hidden,)),
    ]
    return next(shape for pattern, shape in shapes if re.fullmatch(pattern, name))
