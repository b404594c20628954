"""Where things are kept that can be made again."""

import os
from pathlib import Path


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "transevolve"
