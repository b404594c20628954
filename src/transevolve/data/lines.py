"""Reads lines of a UTF-8 byte stream, plain or gzip, in constant memory; errors name the line."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..core.errors import UserError
from ..core.reading import open_regular


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a regular file; gzip data is decompressed, independent of the file's name."""
    with open_regular(path) as raw:
        yield decompressed(raw)


def decompressed(stream: BinaryIO) -> BinaryIO:
    raw: Any = stream
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(raw)
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=buffered), 1 << 20)
    return buffered


@contextmanager
def gzip_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{name}: the gzip data is damaged or cut short ({error}); create the file again") from None


def numbered_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line), with line endings. Only "\\n" ends a line; a leading byte order mark is dropped."""
    with gzip_errors(name):
        for number, line in enumerate(stream, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                if not line:
                    return
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{name}, line {number}: byte 0x{line[error.start]:02x} at position {error.start + 1}"
                    " is not UTF-8; save the file as UTF-8"
                ) from None
            yield number, text


def stripped(line: str) -> str:
    """The line without its ending, "\\n" or "\\r\\n"."""
    return line.removesuffix("\n").removesuffix("\r")
