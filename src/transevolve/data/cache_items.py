"""Lists and removes the contents of the cache: prepared and generated data, and leftovers of killed processes.

Only names that the program gives are listed or removed: the folder may also hold other files.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ..core.files import TEMPORARY, remove, staging_path
from ..core.messages import say
from .entry import Unusable, read_entry
from .frames import FRAMES
from .prepared import FOLDER

LOCK = ".lock"
PREPARATION = "a preparation that is running or was killed"
KEPT = {
    r"listops-v[0-9-]+seed[0-9]+\.npz": "generated expressions",
    r"docstrings-[0-9a-f]{12}\.parquet": "sentences of docstrings",
    r"start-[0-9a-f]+\.npz": "initial word vectors and class weights of classifiers",
    r"unlabelled-[0-9a-f]+\.arrow": "tokens of texts without labels",
    TEMPORARY.pattern: PREPARATION,
}
FRAMED = {r"[0-9a-f]{16}(\.parquet)?": "a data frame", TEMPORARY.pattern: PREPARATION}
ENTRIES = {r"[0-9a-f]{24}": "", TEMPORARY.pattern: PREPARATION}


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
    items = []
    for folder, names in ((root, KEPT), (root / FRAMES, FRAMED), (root / FOLDER, ENTRIES)):
        for path in folder.iterdir() if folder.is_dir() else ():
            what = next((what for name, what in names.items() if re.fullmatch(name, path.name)), None)
            if what is not None and path.exists():
                written = datetime.fromtimestamp(path.stat().st_mtime)
                items.append(CacheItem(path, what or _described(path), folder_size(path), written))
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


def _described(path: Path) -> str:
    try:
        entry = read_entry(path)
    except Unusable as error:
        return f"not usable: {error}"
    rows = ", ".join(f"{split} {stored.rows:,}" for split, stored in entry.splits.items())
    return f"{entry.report['task']}: {rows} rows, from {next(iter(entry.names.values()), 'no file')}"
