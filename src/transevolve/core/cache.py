"""Where things are kept that can be made again."""

import os
from pathlib import Path


def default_cache() -> Path:
    """The environment's TRANSEVOLVE_CACHE, or `transevolve` in the user's cache folder."""
    named = os.environ.get("TRANSEVOLVE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "transevolve"
