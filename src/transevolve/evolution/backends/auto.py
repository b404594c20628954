"""`auto`: the exact backend that a cost model predicts to be fastest for a shape, device and dtype. Exact."""

import logging
from dataclasses import dataclass

import torch

from ...core.private import cpu_multiplies_bfloat16
from ..initial import InitialCondition
from ..settings import EvolutionSettings
from .backend import Evolution
from .exact import ExactBackend
from .fused import FusedBackend
from .once import OnceBackend
from .products import compute_dtype
from .stored import StoredBackend

logger = logging.getLogger(__name__)
_logged: set[str] = set()

DEPTH, PART = 6, 32
SHORT = 48


@dataclass(frozen=True)
class Speed:
    """Operations per second of a kind of device in matrix products and in fused kernels, and bytes moved per second.

    Only ratios matter. Those of a CPU were measured on two cores; those of a GPU are from its data sheet.
    """

    products: float
    fused: float
    bytes: float


SPEEDS: dict[tuple[str, bool], Speed] = {
    ("cpu", False): Speed(100e9, 100e9, 10e9),
    ("cpu", True): Speed(200e9, 150e9, 10e9),
    ("cuda", False): Speed(15e12, 8e12, 1.5e12),
    ("cuda", True): Speed(120e12, 120e12, 1.5e12),
}


def predicted(device: str, dtype: torch.dtype, depth: int = DEPTH, part: int = PART) -> dict[str, float] | None:
    """Seconds per score of one head in training, by backend; None for an unknown device.

    `once` moves its matrix 2 (L + 3) times and takes 6 part operations per depth and 12 part for the scores. `fused`
    moves no matrix. Where it computes the matrix again, it adds the scores twice per depth and once at the end; a fused
    kernel takes 28 part operations per depth.
    """
    low = dtype.itemsize == 2 and (device != "cpu" or cpu_multiplies_bfloat16())
    speed = SPEEDS.get((device, low))
    if speed is None:
        return None
    once = max((6 * depth + 12) * part / speed.products, 2 * (depth + 3) * dtype.itemsize / speed.bytes)
    if device in FusedBackend.recomputing:
        return {"once": once, "fused": (14 * depth + 16) * part / speed.products}
    return {"once": once, "fused": 28 * depth * part / speed.fused}


@dataclass(frozen=True)
class AutoBackend(ExactBackend):
    """`memory_budget` limits the bytes of the matrices of `once`."""

    name = "auto"
    idea = "the fastest of `once`, `fused` and `stored` for a shape, device and dtype, within the memory budget"
    complexity = "that of the backend it chooses"

    memory_budget: int = EvolutionSettings.attention_memory_budget

    def choose(
        self,
        queries: int,
        keys: int,
        batch: int,
        heads: int,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> tuple[ExactBackend, str]:
        """The backend for a block of this shape, and why."""
        if torch.compiler.is_exporting():
            return FusedBackend(), "an exported graph cannot branch on the range of the drift"
        if torch.compiler.is_compiling():
            fits = dtype.itemsize * batch * heads * queries * keys <= self.memory_budget
            known = (device, dtype.itemsize == 2) in SPEEDS
            return (OnceBackend() if fits and known else FusedBackend()), "compiled"
        if device == "cpu" and queries * keys <= SHORT**2:
            return StoredBackend(), f"a softmax per depth is fastest on a CPU for rows of at most {SHORT} tokens"
        size = dtype.itemsize * batch * heads * queries * keys
        sizes = f"one {queries} x {keys} matrix for each of {batch} x {heads} heads is {_readable(size)}"
        if size > self.memory_budget:
            return FusedBackend(), f"{sizes}, over the budget of {_readable(self.memory_budget)}"
        costs = predicted(device, dtype)
        if costs is None:
            return FusedBackend(), f"the speed of {device} is unknown, so PyTorch's own kernel is used"
        backend = OnceBackend() if costs["once"] <= costs["fused"] else FusedBackend()
        low, high = sorted(costs.values())
        predicted_gain = f"predicted {high / low:.1f} times as fast as {'fused' if backend.name == 'once' else 'once'}"
        return backend, f"{sizes}, within the budget of {_readable(self.memory_budget)}; {predicted_gain}"

    def begin(self, initial: InitialCondition) -> Evolution:
        batch, queries, _ = initial.queries.shape
        kind, dtype = initial.queries.device.type, compute_dtype(initial.queries)
        shape = (queries, initial.keys.shape[1], batch, initial.heads)
        backend, why = self.choose(*shape, kind, dtype)
        if not torch.compiler.is_compiling() and why not in _logged:
            _logged.add(why)
            logger.info("attention is %r: %s", backend.name, why)
        return backend.begin(initial)


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
