"""A lock that allows one training at a time in a folder. The system releases it when the process ends or is killed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..core.errors import UserError
from ..core.files import remove_leftovers, write_atomically
from .names import CHECKPOINTS, LOCK, OWNER, PARTIAL


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Yields whether the folder already had a lock file, which means that it is a run folder.

    Creates the folder if needed; if nothing was written to it, its previous state is restored.
    """
    created = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    before = _names(folder)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"{folder} is being trained by {_owner(folder)}: wait for it, stop it, or choose another --output"
        ) from None
    except OSError as error:
        raise UserError(f"cannot lock {folder / LOCK}: {error.strerror or error}; remove that file") from None
    try:
        remove_leftovers(folder)
        write_atomically(folder / OWNER, f"process {os.getpid()}")
        yield LOCK in before
    finally:
        (folder / OWNER).unlink(missing_ok=True)
        with suppress(OSError):
            (folder / CHECKPOINTS).rmdir()
        if _names(folder) - {LOCK} <= before and LOCK not in before:
            (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if created:
            with suppress(OSError):
                folder.rmdir()


def has_content(folder: Path) -> bool:
    """Whether the folder contains more than the files of a training that was killed before its first step."""
    allowed = {LOCK, OWNER} | ({CHECKPOINTS} if not _names(folder / CHECKPOINTS) - {PARTIAL} else set())
    return bool(_names(folder) - allowed)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _owner(folder: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return (folder / OWNER).read_text(encoding="utf-8")[:100].strip() or "another process"
    return "another process"
