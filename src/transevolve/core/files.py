"""Text files that are written whole: the old content or the new, never a part."""

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """The old file or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with open(part, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
