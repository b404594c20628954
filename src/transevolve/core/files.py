"""Atomic writes: a reader sees the old file or the new one, never a part, and no link is ever followed.

Temporary names are unpredictable and opened exclusively, so nothing planted in a folder can redirect a write. They
share one pattern, by which `remove_leftovers` finds what a killed process left behind.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import UserError

TEMPORARY = re.compile(r"\.transevolve-[0-9a-f]{16}\.tmp")
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Libraries that write in C++ or Rust report a full disk in words of their own.
NO_SPACE_TEXTS = (
    "No space left",
    "os error 28",
    "File too large",
    "os error 27",
    "file write failed",
    "failed writing file",
    "inline_container.cc",
)


def temporary(folder: Path) -> Path:
    return folder / f".transevolve-{secrets.token_hex(8)}.tmp"


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A binary file that gets its name when the block succeeds; if it fails, nothing has changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with clear_when_full(path):
        try:
            with open(os.open(part, flags, 0o666), "w+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def copy_atomically(source: Path, path: Path) -> None:
    with open(source, "rb") as original, atomic_file(path) as file:
        shutil.copyfileobj(original, file, 1 << 20)


def staging_path(final: Path) -> Path:
    """Where the content of a folder is prepared; it depends on the folder's name alone."""
    return final.with_name(f".transevolve-{hashlib.sha256(final.name.encode()).hexdigest()[:16]}.tmp")


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """A new folder beside `final` to prepare its content in; gone after the block, unless it was renamed.

    Its name depends on `final` alone, so that a second attempt removes what a killed one left.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    part = staging_path(final)
    with clear_when_full(final):
        remove(part)
        try:
            part.mkdir()
            yield part
        finally:
            remove(part)


def append_line(path: Path, line: str) -> None:
    """Adds a line to a file of ours; a symbolic link in its place is an error."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with clear_when_full(path), open(os.open(path, flags, 0o666), "ab") as file:
        file.write(f"{line}\n".encode())


def remove(path: Path) -> None:
    """Removes a file, a folder, or a link (not what it points to), if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Removes what killed processes left in a folder; nothing else may be writing to it."""
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            if TEMPORARY.fullmatch(path.name):
                remove(path)


def disk_is_full(error: BaseException) -> bool:
    """Whether writing failed for want of space, in whichever library; the cause may be further up the chain."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in NO_SPACE:
            return True
        if any(text in str(seen) for text in NO_SPACE_TEXTS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


@contextmanager
def clear_when_full(path: Path, hint: str = "make room and run the same command again") -> Iterator[None]:
    """One clear line when the disk is full."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not disk_is_full(error):
            raise
        named = getattr(error, "filename", None)
        where = Path(named) if isinstance(named, str) and not TEMPORARY.search(named) else path
        raise UserError(f"could not write {where}: {_free(where)}; {hint}") from error


def _free(path: Path) -> str:
    folder = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path())
    return f"no space left on the disk ({shutil.disk_usage(folder).free / 1e6:,.0f} MB free)"
