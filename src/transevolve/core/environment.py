"""Environment variables, in particular those for fast execution on a CPU, which are set before torch is imported.

OpenMP threads spin for some microseconds while they wait, then sleep. Longer spinning takes cores from other processes;
sleeping immediately makes a training step slower on an idle machine (results/throughput/neighbour.md). glibc keeps
freed matrices for the next step instead of returning them to the system. Variables set by the user are not changed.
"""

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_DEFAULTS = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
ALLOCATOR_DEFAULTS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
OPENMP_VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = -1


def tune_environment() -> None:
    """Sets the defaults of this process and of its child processes; does nothing once torch is loaded."""
    if "torch" in sys.modules:
        return
    if not _any_set(WAIT_VARIABLES):
        os.environ.update(WAIT_DEFAULTS)
    if platform.libc_ver()[0] == "glibc" and not _any_set(ALLOCATOR_VARIABLES):
        os.environ.update(ALLOCATOR_DEFAULTS)
        # glibc reads these variables at process start, so they only affect child processes.
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable in the block, then restores it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def allocator() -> str:
    """Returns the environment variables that control the memory allocator."""
    return _environment(ALLOCATOR_VARIABLES)


def openmp() -> str:
    """Returns the environment variables that control OpenMP threads."""
    return _environment(OPENMP_VARIABLES)


def _any_set(prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in os.environ)


def _environment(prefixes: tuple[str, ...]) -> str:
    found = (f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(prefixes))
    return " ".join(found) or "default"
