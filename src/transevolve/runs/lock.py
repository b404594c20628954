"""One training at a time in a folder: a lock that the system lets go of when its process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import UserError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder if it is not there; if nothing was put into it, it is gone again afterwards."""
    there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with open(path, "a+", encoding="utf-8") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "another process"
                raise UserError(
                    f"{folder} is being trained by {owner}: wait for it, stop it, or choose another --output"
                ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            if not there and list(folder.iterdir()) == [path]:
                path.unlink()
                folder.rmdir()
