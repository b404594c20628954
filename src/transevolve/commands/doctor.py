"""`transevolve doctor`: what this machine has, what `auto` would do on it, and what would fail."""

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

from ..core.machine import available_memory, commit, device_name
from ..core.tables import show
from ..evolution.backends import AutoBackend
from ..models.config import TransEvolveConfig

LENGTHS = [512 * 2**i for i in range(8)]
ROOM = 10**9


@dataclass(frozen=True)
class Options:
    """What the advice on attention is for.

    Args:
        batch: Sequences in a batch.
        heads: Attention heads.
    """

    batch: int = 1
    heads: int = 8


def run(options: Options) -> int:
    """0 if everything needed is here; 1 if something is missing that every command needs."""
    show("This machine", ["what", "found"], _machine())
    show("Attention backend that `auto` chooses", ["length", "backend", "why"], _choices(options))
    missing, limits = list(_missing()), list(_limits(options))
    if missing:
        show("Missing: the program cannot be relied on", ["what", "why, and what to do"], missing)
    if limits:
        show("What would fail here", ["what", "why, and what to do"], limits)
    print("something that every command needs is missing" if missing else "ready")
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
        "threads": f"{torch.get_num_threads()} of PyTorch's",
        "gpus": ", ".join(map(device_name, _gpus())) or "none that PyTorch sees",
        "free memory": f"{available_memory() / 1e9:.1f} GB",
        "free disk": f"{disk.free / 1e9:.1f} GB of {disk.total / 1e9:.1f} GB at {Path.cwd()}",
    }
    return [[key, value] for key, value in found.items()]


def _gpus() -> list[str]:
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def _choices(options: Options) -> list[list[str]]:
    auto = AutoBackend(memory_budget=TransEvolveConfig().attention_memory_budget)
    chosen = [(n, *auto.choose(n, n, options.batch, options.heads)) for n in LENGTHS]
    return [[str(n), backend.name, why] for n, backend, why in chosen]


def _dependencies() -> list[Requirement]:
    """What the package declares it needs, extras apart."""
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
            why = (
                f"one attention matrix is {matrix / 1e9:.1f} GB, {free / 1e9:.1f} GB is free; use fused, linear or auto"
            )
            yield [f"attention literal or once from {n} tokens", why]
            break
    if not _gpus():
        build = "was built without CUDA" if torch.version.cuda is None else "sees no GPU"
        yield ["training on a GPU, `transevolve bench speed --device cuda`", f"PyTorch {torch.__version__} {build}"]
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        yield ["torch.compile with inductor", "no C++ compiler is on the path; install one, or use backend='aot_eager'"]
    for package, what in (("tensorboard", "TensorBoard logs"), ("onnxscript", "export to ONNX")):
        if find_spec(package) is None:
            yield [what, f"{package} is not installed; pip install {package}"]
    if not os.access(Path.cwd(), os.W_OK):
        yield ["writing results here", f"{Path.cwd()} is not writable; give --output another folder"]
    if shutil.disk_usage(Path.cwd()).free < ROOM:
        yield ["writing checkpoints here", "less than 1 GB of disk is free; give --output another disk"]
    if free < ROOM:
        yield ["training", "less than 1 GB of memory is free; close other programs or lower the batch"]
