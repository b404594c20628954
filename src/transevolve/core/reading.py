"""Opening files that may be anything: only regular files are read; a pipe or device would hang and is refused."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import UserError

NONBLOCKING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_regular(path: str | Path) -> Iterator[BinaryIO]:
    """A regular file, opened for reading; anything else is a UserError that names it."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | NONBLOCKING)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path}: is a pipe or a device; give a regular file, or send it to standard input")
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file; check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
