"""The checksum and number of lines of a file."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .lines import gzip_errors, open_bytes

PARQUET = b"PAR1"


@dataclass(frozen=True)
class Contents:
    """The sha256 and number of lines of a file, both after decompression. `lines` is None for parquet."""

    sha256: str
    lines: int | None


def contents_of(path: str | Path) -> Contents:
    with gzip_errors(str(path)), open_bytes(path):
        found = os.stat(path)
    return _contents(Path(path), found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _contents(path: Path, *stat: int) -> Contents:
    """Computed once per process, unless the file changes."""
    digest, lines, first, last = hashlib.sha256(), 0, b"", b"\n"
    with open_bytes(path) as stream, gzip_errors(str(path)):
        while block := stream.read(1 << 20):
            digest.update(block)
            lines += block.count(b"\n")
            first, last = first or block[:4], block[-1:]
    return Contents(digest.hexdigest(), None if first == PARQUET else lines + (last != b"\n"))
