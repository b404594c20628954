"""Columns on disk: written to Arrow files batch by batch, then read memory-mapped.

Inside `workspace(folder)`, columns and tables are written to files in that folder, with one batch in memory. Outside,
they are in memory.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from ..core.progress import Bar
from .contents import contents_of

if TYPE_CHECKING:
    from datasets import Dataset

BATCH_ROWS, BATCH_CHARACTERS = 8192, 1 << 24
TEXT = "text"


class Workspace:
    """A folder for numbered Arrow files; files that are still open are closed on exit."""

    def __init__(self, folder: Path):
        self.folder, self.numbers, self.open_files = folder, count(), ExitStack()

    def new_file(self) -> tuple[Path, BinaryIO]:
        path = self.folder / f"{next(self.numbers)}.arrow"
        return path, self.open_files.enter_context(open(path, "xb"))


_WORKSPACE: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


@contextmanager
def workspace(folder: Path) -> Iterator[Workspace]:
    found = Workspace(folder)
    token = _WORKSPACE.set(found)
    try:
        with found.open_files:
            yield found
    finally:
        _WORKSPACE.reset(token)


@contextmanager
def progress(title: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar; yields a function to call with the number of rows done. Silent outside a workspace."""
    if _WORKSPACE.get() is None:
        yield lambda rows: None
    else:
        with Bar(title, total, "rows") as bar:
            yield bar.update


def reading(file: str) -> AbstractContextManager[Callable[[int], None]]:
    """A progress bar for reading a file or another source of that name."""
    known = _WORKSPACE.get() is not None and Path(file).is_file()
    return progress(f"reading {file}", contents_of(file).lines if known else None)


def new_texts() -> Any:
    """A new column of texts to append to."""
    return [] if _WORKSPACE.get() is None else Column(pa.large_string())


def text_column(texts: Iterable[str]) -> Sequence[str]:
    """Texts as a new column."""
    column = new_texts()
    for text in texts:
        column.append(text)
    return column


def new_numbers() -> Any:
    """A new column of whole numbers to append to."""
    return array("q") if _WORKSPACE.get() is None else Column(pa.int64())


class Column(Sequence[Any]):
    """Values in an Arrow file. All values must be appended before the first is read."""

    def __init__(self, kind: pa.DataType):
        self.kind, self.rows, self.size = kind, 0, 0
        self.buffer: list[Any] = []
        self.writer: TableWriter | None = TableWriter()
        self.chosen: np.ndarray | None = None

    @classmethod
    def of(cls, values: pa.ChunkedArray) -> "Column":
        """A column that has been written."""
        found = cls.__new__(cls)
        found.kind, found.rows, found.size, found.buffer, found.writer = values.type, len(values), 0, [], None
        found.chosen = None
        found._map(values)
        return found

    def append(self, value: Any) -> None:
        self.buffer.append(value)
        self.rows += 1
        self.size += len(value) if isinstance(value, str) else 1
        if len(self.buffer) >= BATCH_ROWS or self.size >= BATCH_CHARACTERS:
            self._flush()

    def __len__(self) -> int:
        return self.rows if self.chosen is None else len(self.chosen)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return list(self._read(self._rows(position)))
        row = range(len(self))[position]
        return next(self._read(np.array([row if self.chosen is None else self.chosen[row]])))

    def __iter__(self) -> Iterator[Any]:
        yield from self._read(self._rows(slice(None)))

    def select(self, rows: np.ndarray) -> "Column":
        """The rows with these numbers, without copying."""
        self._finish()
        found = Column.__new__(Column)
        found.__dict__.update(self.__dict__)
        found.chosen = np.asarray(rows) if self.chosen is None else self.chosen[rows]
        return found

    def nbytes(self) -> int:
        """The size of the selected rows, estimated from the average."""
        self._finish()
        return sum(chunk.nbytes for chunk in self.chunks) * len(self) // max(self.rows, 1)

    def _rows(self, position: slice) -> np.ndarray:
        return np.arange(*position.indices(self.rows)) if self.chosen is None else self.chosen[position]

    def _read(self, rows: np.ndarray) -> Iterator[Any]:
        self._finish()
        chunks = np.searchsorted(self.starts, rows, side="right") - 1
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(chunks)) + 1):
            if len(run):
                chunk = int(chunks[run[0]])
                yield from self.chunks[chunk].take(pa.array(rows[run] - self.starts[chunk])).to_pylist()

    def _flush(self) -> None:
        assert self.writer is not None, "the column has been read"
        self.writer.add({"value": pa.array(self.buffer, self.kind)})
        self.buffer, self.size = [], 0

    def _finish(self) -> None:
        if self.writer is not None:
            if self.buffer or not self.rows:
                self._flush()
            self._map(self.writer.table()["value"])
            self.writer = None

    def _map(self, values: pa.ChunkedArray) -> None:
        self.chunks = values.chunks
        self.starts = starts_of(self.chunks)


def batched(texts: Iterable[Any]) -> Iterator[list[Any]]:
    """Texts, or tuples of texts, in batches that fit in memory."""
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text) if isinstance(text, str) else sum(map(len, text))
        if len(batch) >= BATCH_ROWS or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@runtime_checkable
class OnDisk(Protocol):
    """Texts that are not in memory."""

    def nbytes(self) -> int: ...
    def select(self, rows: np.ndarray) -> Sequence[str]: ...


def text_sample(texts: Sequence[str], rows: int, size: int, seed: int) -> Sequence[str]:
    """A random sample of at most `rows` texts and about `size` bytes, in order. Texts in memory are not sampled."""
    whole = texts.parts if isinstance(texts, Chained) else (texts,)
    parts = [part for part in whole if isinstance(part, OnDisk)]
    if len(parts) < len(whole):
        return texts
    wanted = min(rows, size * len(texts) // max(sum(part.nbytes() for part in parts), 1))
    if wanted >= len(texts):
        return texts
    drawn = np.sort(np.random.RandomState(seed).permutation(len(whole[0]))[: wanted // len(parts)])
    return Chained(*(part.select(drawn) for part in parts))


def select_rows(column: Sequence[Any], rows: np.ndarray) -> Sequence[Any]:
    """Some rows of a column."""
    return column.select(rows) if isinstance(column, Column | Chained) else [column[row] for row in rows]


class Chained(Sequence[Any]):
    """Concatenated columns."""

    def __init__(self, *parts: Sequence[Any]):
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, position: Any) -> Any:
        starts = self._starts().tolist()
        row = range(len(self))[position]
        part = bisect_right(starts, row) - 1
        return self.parts[part][row - starts[part]]

    def select(self, rows: np.ndarray) -> "Chained":
        """The rows with these numbers, which must be sorted."""
        starts = self._starts()
        owners = np.searchsorted(starts, rows, side="right") - 1
        return Chained(*(select_rows(part, rows[owners == p] - starts[p]) for p, part in enumerate(self.parts)))

    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *map(len, self.parts)])[:-1]

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.parts)


class TableWriter:
    """Writes columns of any types, batch by batch, to a file of the workspace, or to memory if there is none."""

    def __init__(self):
        space = _WORKSPACE.get()
        self.path, self.file = (None, None) if space is None else space.new_file()
        self.batches: list[pa.RecordBatch] = []
        self.stream: pa.RecordBatchStreamWriter | None = None

    def add(self, columns: Mapping[str, pa.Array]) -> None:
        batch = pa.record_batch(list(columns.values()), names=list(columns))
        if self.file is None:
            self.batches.append(batch)
            return
        if self.stream is None:
            self.stream = pa.ipc.new_stream(self.file, batch.schema)
        self.stream.write_batch(batch)

    def table(self) -> pa.Table:
        """All batches, of which there must be at least one; ends writing."""
        if self.path is None:
            return pa.Table.from_batches(self.batches)
        self._close()
        return mapped_table(self.path).table

    def dataset(self, names: Sequence[str], fingerprint: str) -> "Dataset":
        """All batches, with these columns."""
        from datasets import Dataset

        if self.path is None:
            return Dataset(self.table().select(list(names)), fingerprint=fingerprint)
        self._close()
        return Dataset(mapped_table(self.path).select(list(names)), fingerprint=fingerprint)

    def _close(self) -> None:
        if self.file is not None and self.stream is not None:
            self.stream.close()
            self.file.close()


def mapped_table(path: Path) -> Any:
    """The table of a file as a memory-mapped table of the datasets library."""
    from datasets.table import MemoryMappedTable

    return MemoryMappedTable.from_file(str(path))


def starts_of(chunks: Sequence[pa.Array]) -> np.ndarray:
    """The index of the first row of each chunk."""
    return np.cumsum([0, *map(len, chunks)])[:-1] if chunks else np.zeros(0, dtype=np.int64)
