"""What a process sets before torch is loaded, so that it is fast on a CPU and leaves time to its neighbours.

OpenMP's threads spin for a short time while they wait, then sleep: spinning on takes the cores from other processes,
and sleeping at once costs a sixth of a step on a quiet machine. And glibc keeps large matrices that are freed and
needed again in the next step, instead of returning them to the system. A variable that the user sets is left alone.
"""

import ctypes
import os
import platform
import sys

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}
WAITING_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
ALLOCATOR_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
OPENMP_VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = -1


def tune_environment() -> None:
    """Sets the defaults of this process and of those it starts; does nothing once torch is loaded."""
    if "torch" in sys.modules:
        return
    if not _any_set(WAITING_VARIABLES):
        os.environ.update(WAITING)
    if platform.libc_ver()[0] == "glibc" and not _any_set(ALLOCATOR_VARIABLES):
        os.environ.update(KEEPING)
        # glibc reads the variables when a process starts: they are for those that this one starts.
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def allocator() -> str:
    """The environment that decides whether freed memory is kept or returned to the system."""
    return _environment(ALLOCATOR_VARIABLES)


def openmp() -> str:
    """The environment that decides how threads are placed and how they wait."""
    return _environment(OPENMP_VARIABLES)


def _any_set(prefixes: tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in os.environ)


def _environment(prefixes: tuple[str, ...]) -> str:
    found = (f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(prefixes))
    return " ".join(found) or "default"
