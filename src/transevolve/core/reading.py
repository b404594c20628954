"""Opens regular files only: reading a pipe or a device could block."""

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
    """Opens a regular file for reading; raises UserError for anything else."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | NONBLOCKING)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"{path} is a pipe or a device: use a regular file or standard input")
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file: check the path") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
