"""Facts about the machine, and its memory and threads."""

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import psutil
import torch

from .environment import allocator, openmp
from .errors import UserError

MOST_THREADS = 4096
PACKAGES = ("torch", "transformers", "transevolve")
CPU_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16")


def describe_machine(device: str = "cpu", threads: int | None = None) -> dict[str, str]:
    """Returns what a measurement depends on in addition to its settings."""
    return {
        "machine": device_name(device),
        **conditions(threads),
        "load before": f"{load_average():.2f}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "commit": commit() or "not a checkout",
    }


def conditions(threads: int | None = None) -> dict[str, str]:
    """Returns what the speed of a device depends on in addition to its model."""
    return {
        "cpu flags": cpu_flags(),
        "threads": str(threads or torch.get_num_threads()),
        "OpenMP": openmp(),
        "allocator": allocator(),
    }


def cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_vendor() -> str | None:
    return _cpuinfo("vendor_id")


def cpu_flags() -> str:
    """Returns the vector and matrix instruction sets that determine the speed of each precision."""
    flags = (_cpuinfo("flags") or "").split()
    return " ".join(flag for flag in CPU_FLAGS if flag in flags) or "none known"


def _cpuinfo(key: str) -> str | None:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cpu_model()}, {os.cpu_count()} cores"


def load_average() -> float:
    """Returns the number of runnable processes, averaged over the last minute."""
    return psutil.getloadavg()[0]


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


def commit() -> str | None:
    """Returns `git describe` of the checkout that contains this package; None if it is installed elsewhere."""
    folder = Path(__file__).parent
    tracked = _git(folder, "ls-files", "--error-unmatch", "__init__.py")
    return _git(folder, "describe", "--always", "--dirty", "--tags") if tracked else None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def available_memory() -> int:
    """Returns the bytes this process can still allocate, within the limit of its container if there is one."""
    free = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return max(free, 0)


def process_status(key: str) -> int:
    """Returns a size from /proc/self/status, such as VmRSS, VmHWM or VmData, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


@contextmanager
def limit_allocations() -> Iterator[None]:
    """Makes allocations beyond the free memory raise; Linux would grant them and kill the process later."""
    if platform.system() != "Linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    ceiling = process_status("VmData") + available_memory()
    if hard != resource.RLIM_INFINITY:
        ceiling = min(ceiling, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Runs the block with `count` threads, by default (None or 0) the current number, which is restored after it."""
    if count and not 1 <= count <= MOST_THREADS:
        raise UserError(f"--threads must be 1 to {MOST_THREADS:,}, not {count}")
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def return_freed_memory() -> None:
    """Returns freed memory to the system. With the settings of `environment`, the allocator never does so by itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treats denormal numbers as zero in the block, in this thread and in threads that it starts.

    Adam's first moment decays to denormal numbers where an embedding has had no gradient for some 700 steps, and each
    operation on one takes a hundred cycles or more: a step of the optimizer becomes ten times as slow.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
