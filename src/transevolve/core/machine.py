"""The machine a number was measured on, and its memory."""

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import psutil
import torch

PACKAGES = ("torch", "transformers", "transevolve")


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def default_device() -> torch.device:
    """The first GPU, or the CPU where there is none."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def device_name(device: str) -> str:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cpu_model()}, {os.cpu_count()} cores"


def allocator() -> str:
    """What of the environment decides whether freed memory is kept or given back and faulted in again."""
    told = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("MALLOC_")]
    preloaded = os.environ.get("LD_PRELOAD")
    return " ".join([*told, *([f"LD_PRELOAD={preloaded}"] if preloaded else [])]) or "the system's own"


def load_average() -> float:
    """Processes wanting to run, over the last minute."""
    return psutil.getloadavg()[0]


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


def commit() -> str | None:
    """`git describe` of the checkout this package runs from; None if it runs from anywhere else."""
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
    """Bytes this process may still take: what the machine has free, or less in a container with a limit."""
    free = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return max(free, 0)


def process_status(key: str) -> int:
    """A size from /proc/self/status, in bytes: VmRSS, VmHWM, VmData."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


@contextmanager
def allocations_that_fail() -> Iterator[None]:
    """Lets an allocation beyond the free memory raise, where Linux would grant it and later kill the process."""
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
    """Runs the block on that many threads, then goes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
