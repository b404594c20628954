"""Atomic writes: readers see either the old file or the new one. Symbolic links are never followed.

Temporary files have random names and are opened exclusively, so a planted file cannot redirect a write. Their names
share one pattern, so `remove_leftovers` can find the temporary files of killed processes.
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
# C++ and Rust libraries report a full disk only in the message.
NO_SPACE_MESSAGES = (
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
    """Opens a temporary binary file that replaces `path` when the block succeeds; if it fails, `path` is unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = temporary(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with report_full_disk(path):
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
    """Returns the temporary folder of `staging_folder`; it depends only on the name of `final`."""
    return final.with_name(f".transevolve-{hashlib.sha256(final.name.encode()).hexdigest()[:16]}.tmp")


@contextmanager
def staging_folder(final: Path) -> Iterator[Path]:
    """Creates a folder next to `final` to prepare its content in; removed after the block unless it was renamed.

    Its name is fixed, so a second attempt removes the leftovers of a killed one.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    part = staging_path(final)
    with report_full_disk(final):
        remove(part)
        try:
            part.mkdir()
            yield part
        finally:
            remove(part)


def append_line(path: Path, line: str) -> None:
    """Appends a line to a file; raises if it is a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with report_full_disk(path), open(os.open(path, flags, 0o666), "ab") as file:
        file.write(f"{line}\n".encode())


def checksum(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(path: Path) -> None:
    """Removes a file, a folder, or a link (not its target), if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Removes temporary files of killed processes from a folder; no other process may be writing to it."""
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            if TEMPORARY.fullmatch(path.name):
                remove(path)


def disk_is_full(error: BaseException) -> bool:
    """Whether the error, or one in its chain of causes, comes from a full disk."""
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, OSError) and current.errno in NO_SPACE:
            return True
        if any(message in str(current) for message in NO_SPACE_MESSAGES):
            return True
        current = current.__cause__ or current.__context__
    return False


@contextmanager
def report_full_disk(path: Path, hint: str = "free some space and run the same command again") -> Iterator[None]:
    """Raises a UserError if writing fails because the disk is full."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not disk_is_full(error):
            raise
        where = _written(error, path)
        raise UserError(f"could not write {where}: {_free(where)}; {hint}") from error


def _written(error: Exception, path: Path) -> Path:
    """The file that an error is about, or else `path`; the folder of a temporary one."""
    named = getattr(error, "filename2", None) or getattr(error, "filename", None)  # a copy names its source first
    where = Path(named) if isinstance(named, str) and not TEMPORARY.search(named) else path
    return next((part.parent for part in (where, *where.parents) if TEMPORARY.fullmatch(part.name)), where)


def _free(path: Path) -> str:
    folder = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path())
    return f"no space left on the disk ({shutil.disk_usage(folder).free / 1e6:,.0f} MB free)"
