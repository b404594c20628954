"""The cache folder and its locks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..core.cache import default_cache
from ..core.errors import UserError
from ..core.files import disk_is_full
from ..core.messages import say

KEY_LENGTH = 24


def cache_folder(named: str | None) -> Path:
    """The folder that `data.cache` names, or the default."""
    return Path(named) if named is not None else default_cache()


@contextmanager
def write_errors(folder: Path) -> Iterator[None]:
    """Raises UserError if the cache cannot be written; a full disk is reported elsewhere."""
    try:
        yield
    except OSError as error:
        if disk_is_full(error):
            raise
        raise UserError(
            f"{folder}: cannot write the cache ({error.strerror or error}); name a folder with data.cache, or in the"
            " environment with TRANSEVOLVE_CACHE"
        ) from None


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Lock a file or folder of the cache for one process. Yields whether another process had the lock first."""
    lock, waited = FileLock(path.with_name(f"{path.name}.lock")), False
    with write_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"waiting for another process that is preparing the same data in {path}")
            waited = True
            lock.acquire()
    try:
        yield waited
    finally:
        lock.release()
