"""Location of the cache."""

import os
from pathlib import Path


def default_cache() -> Path:
    """Returns $TRANSEVOLVE_CACHE, or `transevolve` in the user's cache folder."""
    if configured := os.environ.get("TRANSEVOLVE_CACHE"):
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "transevolve"
