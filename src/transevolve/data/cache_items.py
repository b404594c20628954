"""Lists and removes the contents of the cache: prepared and generated data, and leftovers of killed processes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ..core.files import TEMPORARY, remove, staging_path
from ..core.messages import say
from .entry import Unusable, read_entry
from .prepared import FOLDER

LOCK = ".lock"
KEPT = {
    "listops": "generated expressions",
    "start": "initial word vectors and class weights of classifiers",
    "unlabelled": "tokens of texts without labels",
}


@dataclass(frozen=True)
class CacheItem:
    """A file or folder of the cache, with its description."""

    path: Path
    what: str
    size: int
    written: datetime

    @property
    def name(self) -> str:
        return self.path.name


def cache_items(root: Path) -> list[CacheItem]:
    """Newest first; locks are not listed."""
    paths = [path for folder in (root, root / FOLDER) if folder.is_dir() for path in folder.iterdir()]
    paths = [path for path in paths if path.suffix != LOCK and path != root / FOLDER]
    items = [
        CacheItem(path, _what(path), folder_size(path), datetime.fromtimestamp(path.stat().st_mtime))
        for path in paths
        if path.exists()
    ]
    return sorted(items, key=lambda item: item.written, reverse=True)


def clear(root: Path, items: Iterable[CacheItem]) -> int:
    """Remove items and return the bytes freed; items that are being prepared are kept."""
    freed = 0
    finals = [path.with_suffix("") for path in (root / FOLDER).glob(f"*{LOCK}")]
    owners = {staging_path(final): final for final in finals}
    for item in items:
        owner = owners.get(item.path, item.path)
        lock = FileLock(owner.with_name(f"{owner.name}{LOCK}"), timeout=0)
        try:
            with lock:
                remove(item.path)
                freed += item.size
                Path(lock.lock_file).unlink(missing_ok=True)
        except Timeout:
            say(f"{item.path} is being prepared: it is not removed")
    return freed


def folder_size(path: Path) -> int:
    """The size in bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def format_size(size: int) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _what(path: Path) -> str:
    if TEMPORARY.fullmatch(path.name):
        return "a preparation that is running or was killed"
    if path.parent.name != FOLDER:
        return KEPT.get(path.name.partition("-")[0], "other data")
    try:
        entry = read_entry(path)
    except Unusable as error:
        return f"not usable: {error}"
    rows = ", ".join(f"{split} {stored.rows:,}" for split, stored in entry.splits.items())
    return f"{entry.report['task']}: {rows} rows, from {next(iter(entry.names.values()), 'no file')}"
