"""`transevolve doctor`: shows this machine, the choices of `auto`, and what would fail."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch
from packaging.requirements import Requirement

from ..core.environment import allocator, openmp
from ..core.machine import available_memory, commit, cpu_flags, device_name
from ..core.private import cpu_multiplies_bfloat16
from ..core.tables import show
from ..evolution.backends import AutoBackend
from ..models.config import TransEvolveConfig

LENGTHS = [16 * 2**i for i in range(13)]
DEVICES = [(device, dtype) for device in ("cpu", "cuda") for dtype in (torch.float32, torch.bfloat16)]
ROOM = 10**9


@dataclass(frozen=True)
class Options:
    """The shape for the choice of attention backend.

    Args:
        batch: Sequences per batch.
        heads: Attention heads.
    """

    batch: int = 1
    heads: int = 8


def run(options: Options) -> int:
    """Returns 1 if a required package is missing, else 0."""
    show("This machine", ["item", "value"], _machine())
    show("Attention backend that `auto` chooses", ["device", "type", "length", "backend", "reason"], _choices(options))
    missing, limits = list(_missing()), list(_limits(options))
    if missing:
        show("Missing packages", ["package", "what to do"], missing)
    if limits:
        show("What would fail here", ["task", "reason, and what to do"], limits)
    print("not ready: required packages are missing" if missing else "ready")
    return 1 if missing else 0


def _machine() -> list[list[str]]:
    disk = shutil.disk_usage(Path.cwd())
    found = {
        "python": platform.python_version(),
        "transevolve": metadata.version("transevolve"),
        **{needed.name: _installed(needed.name) or "missing" for needed in _dependencies()},
        "commit": commit() or "not a checkout",
        "system": platform.platform(),
        "cpu": device_name("cpu"),
        "cpu flags": cpu_flags(),
        "bfloat16 on the cpu": _bfloat16(),
        "threads": str(torch.get_num_threads()),
        "OpenMP": openmp(),
        "allocator": allocator(),
        "gpus": ", ".join(map(device_name, _gpus())) or "none visible to PyTorch",
        "free memory": f"{available_memory() / 1e9:.1f} GB",
        "free disk": f"{disk.free / 1e9:.1f} GB of {disk.total / 1e9:.1f} GB at {Path.cwd()}",
    }
    return [[key, value] for key, value in found.items()]


def _gpus() -> list[str]:
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def _choices(options: Options) -> list[list[str]]:
    """The lengths at which the chosen backend changes, for every device and type."""
    auto = AutoBackend(memory_budget=TransEvolveConfig().attention_memory_budget)
    rows: list[list[str]] = []
    for device, dtype in DEVICES:
        before = None
        for n in LENGTHS:
            backend, why = auto.choose(n, n, options.batch, options.heads, device, dtype)
            if backend.name != before:
                rows.append([device, str(dtype).removeprefix("torch."), f"from {n}", backend.name, why])
            before = backend.name
    return rows


def _bfloat16() -> str:
    if cpu_multiplies_bfloat16():
        return "in hardware"
    return "not supported in hardware: correct results, but not faster than float32"


def _dependencies() -> list[Requirement]:
    """The declared dependencies, without extras."""
    declared = map(Requirement, metadata.requires("transevolve") or [])
    return [needed for needed in declared if needed.marker is None or needed.marker.evaluate({"extra": ""})]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _missing() -> Iterator[list[str]]:
    """Dependencies that are absent or of the wrong version."""
    for needed in _dependencies():
        found = _installed(needed.name)
        if found is None:
            yield [needed.name, f"not installed; pip install '{needed}'"]
        elif not needed.specifier.contains(found, prereleases=True):
            yield [needed.name, f"{found} is installed, {needed.specifier} is needed; pip install '{needed}'"]


def _limits(options: Options) -> Iterator[list[str]]:
    free = available_memory()
    for n in LENGTHS:
        matrix = 4 * options.batch * options.heads * n * n
        if matrix > free:
            sizes = f"one attention matrix is {matrix / 1e9:.1f} GB, {free / 1e9:.1f} GB is free"
            yield [
                f"attention literal or once from {n} tokens",
                f"{sizes}; `transevolve train --model.attention fused`",
            ]
            break
    if not _gpus():
        build = "was built without CUDA" if torch.version.cuda is None else "sees no GPU"
        yield ["training on a GPU, `transevolve bench speed --device cuda`", f"PyTorch {torch.__version__} {build}"]
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        yield ["`transevolve train --training.compile`", "torch.compile needs a C++ compiler; install one"]
    for package, what in (("tensorboard", "TensorBoard logs"), ("onnxscript", "export to ONNX")):
        if find_spec(package) is None:
            yield [what, f"{package} is not installed; pip install {package}"]
    if not os.access(Path.cwd(), os.W_OK):
        yield ["writing results here", f"{Path.cwd()} is not writable; `transevolve train --output` another folder"]
    if shutil.disk_usage(Path.cwd()).free < ROOM:
        yield ["writing checkpoints here", "less than 1 GB of disk is free; `transevolve train --output` another disk"]
    if free < ROOM:
        yield [
            "training",
            "less than 1 GB is free; `transevolve train --training.memory 500MB` splits batches",
        ]
