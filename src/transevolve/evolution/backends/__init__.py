"""Backends: ways to compute evolved attention. A new one is a file with a `Backend`, and an entry here."""

from .auto import AutoBackend
from .backend import Backend, Evolution
from .exact import ExactBackend
from .fused import FusedBackend
from .linear import LinearBackend
from .literal import LiteralBackend
from .once import OnceBackend

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        LiteralBackend(),
        OnceBackend(),
        FusedBackend(),
        LinearBackend(),
        AutoBackend(),
    )
}

__all__ = [
    "BACKENDS",
    "AutoBackend",
    "Backend",
    "Evolution",
    "ExactBackend",
    "FusedBackend",
    "LinearBackend",
    "LiteralBackend",
    "OnceBackend",
]
