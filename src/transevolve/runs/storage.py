"""Folders that are whole or not there: written under another name, summed, then renamed; checked when they are read."""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from ..core.errors import UserError
from ..core.files import write_atomically

MANIFEST = "manifest.json"
PARTIAL = ".partial"
CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class DamagedFolder(UserError):
    """A folder whose files are not those its manifest names."""


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, names: Iterable[str] | None = None) -> None:
    """Names every file of the folder, or those given, with its sha256 sum."""
    if names is None:
        names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST]
    sums = {name: checksum(folder / name) for name in sorted(names)}
    write_atomically(folder / MANIFEST, json.dumps({"sha256": sums}, indent=1) + "\n")


def check_manifest(folder: Path) -> None:
    """Raises `DamagedFolder` unless every file named is there and as it was written."""
    path = folder / MANIFEST
    try:
        sums = json.loads(path.read_text(encoding="utf-8"))["sha256"]
        named = {str(name): str(value) for name, value in sums.items()}
    except FileNotFoundError:
        raise DamagedFolder(f"{folder} has no {MANIFEST}: it was not completely written") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DamagedFolder(f"{path} is damaged: it is not a list of checksums") from None
    for name, expected in named.items():
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()):
            raise DamagedFolder(f"{path} names {name!r}, which is outside its folder")
        if not file.is_file():
            raise DamagedFolder(f"{file} is missing: the folder is damaged")
        if checksum(file) != expected:
            raise DamagedFolder(f"{file} is damaged: its contents are not those that were written")


def publish(partial: Path, final: Path) -> None:
    """Gives a complete folder its name."""
    write_manifest(partial)
    if final.exists():
        shutil.rmtree(final)
    os.replace(partial, final)


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints in a folder with their steps, oldest first."""
    found = [(CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("checkpoint-*")]
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def newest_whole(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with those that are newer."""
    complaints = []
    for _, path in reversed(checkpoints(folder)):
        try:
            check_manifest(path)
        except DamagedFolder as error:
            complaints.append(str(error))
        else:
            return path, complaints
    return None, complaints


def rotate(folder: Path, keep: int, also: set[int]) -> None:
    """Removes all but the newest checkpoints and those of the steps given."""
    for step, path in checkpoints(folder)[:-keep]:
        if step not in also:
            shutil.rmtree(path)


@contextmanager
def full_disk_told(folder: Path, what: str) -> Iterator[None]:
    """Writing that fails for want of space, in whichever library, ends in one clear line."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _no_space(error):
            raise
        free = shutil.disk_usage(folder).free
        raise UserError(
            f"could not write {what} in {folder}: no space ({free / 1e6:,.0f} MB free on that disk);"
            " the last good checkpoint is kept, make room and give the same command again"
        ) from error


def _no_space(error: BaseException) -> bool:
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if isinstance(error, OSError) and error.errno in full:
        return True
    told = ("No space left", "os error 28", "File too large", "os error 27", "file write failed", "failed writing file")
    return any(words in str(error) for words in told)
