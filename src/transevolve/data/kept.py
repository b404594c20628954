"""Caches results that are expensive to compute, under a key of all their inputs.

Files are written atomically. Damaged files are computed again. A read-only cache is not written to.
"""

import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from ..core.files import atomic_file
from ..core.messages import say
from .cache_folder import KEY_LENGTH, locked
from .encoding import Encoded

Found = TypeVar("Found")
IDS = pa.schema([("ids", pa.large_list(pa.int32()))])
SECONDS_WORTH_KEEPING = 2.0
SUM_BYTES = hashlib.sha256().digest_size


def key_of_parts(*parts: str | np.ndarray) -> str:
    """A hash of strings and arrays, in order."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape};".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(f"{len(part)} {part};".encode())
    return digest.hexdigest()[:KEY_LENGTH]


def kept_arrays(file: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The named arrays that `compute` returns, from the file if it exists; stored if `compute` was slow."""
    found = _intact(file, _read_arrays)
    if found is None:
        started = time.perf_counter()
        found = compute()
        if time.perf_counter() - started > SECONDS_WORTH_KEEPING and not _read_only(file):
            with atomic_file(file) as stream:
                np.savez(stream, **found)
    return found


def kept_ids(file: Path, encode: Callable[[], Iterable[Encoded]]) -> Iterable[np.ndarray]:
    """The token ids of texts, which `encode` yields in batches; memory-mapped, may be iterated over repeatedly."""
    found = _intact(file, _mapped_ids)
    if found is not None or _read_only(file):
        return _Rows(encode) if found is None else found
    with locked(file) as waited:
        found = _intact(file, _mapped_ids) if waited else None
        if found is None:
            with atomic_file(file) as stream:
                _write_ids(stream, encode())
            found = _mapped_ids(file)
    return found


def _read_only(file: Path) -> bool:
    return file.parent.is_dir() and not os.access(file.parent, os.W_OK)


def _intact(file: Path, read: Callable[[Path], Found]) -> Found | None:
    if not file.is_file():
        return None
    try:
        return read(file)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        say(f"{file} is damaged ({error}): it is computed again")
        return None


def _read_arrays(file: Path) -> dict[str, Any]:
    with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
        return dict(stored)


def _write_ids(stream: BinaryIO, batches: Iterable[Encoded]) -> None:
    with pa.ipc.new_stream(pa.PythonFile(stream, mode="w"), IDS) as writer:
        for encoded in batches:
            writer.write_batch(pa.record_batch([encoded.column().cast(IDS.field(0).type)], schema=IDS))
    digest = hashlib.sha256()
    stream.seek(0)
    while block := stream.read(1 << 20):
        digest.update(block)
    stream.write(digest.digest())


def _mapped_ids(file: Path) -> "_Rows":
    content = np.memmap(file, np.uint8, "r")
    if hashlib.sha256(content[:-SUM_BYTES].data).digest() != content[-SUM_BYTES:].tobytes():
        raise ValueError("wrong checksum")
    return _Rows(lambda: _batches(file))


def _batches(file: Path) -> Iterator[Encoded]:
    with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            column = batch.column(0)
            yield Encoded(column.values.to_numpy(), column.offsets.to_numpy())


@dataclass(frozen=True)
class _Rows:
    """The ids of each text of all batches; may be iterated over repeatedly."""

    batches: Callable[[], Iterable[Encoded]]

    def __iter__(self) -> Iterator[np.ndarray]:
        for encoded in self.batches():
            yield from encoded.rows()
