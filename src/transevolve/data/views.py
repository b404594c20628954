"""Rows of Arrow columns as numpy views, without a Python object per token."""

from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.private import dataset_indices
from .stored import starts_of


class Views:
    """A column, indexed by row number: an array if rows are lists of any length, otherwise a number or a list.

    Args:
        column: The column.
        rows: The row numbers to use; None means all rows.
    """

    def __init__(self, column: pa.ChunkedArray, rows: np.ndarray | None = None):
        self.chunks = [_parts(chunk) for chunk in column.chunks]
        self.starts = starts_of(column.chunks).tolist()
        self.rows, self.count = rows, len(column) if rows is None else len(rows)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        number = number if self.rows is None else int(self.rows[number])
        chunk = bisect_right(self.starts, number) - 1
        values, offsets = self.chunks[chunk]
        position = number - self.starts[chunk]
        return values[position].tolist() if offsets is None else values[offsets[position] : offsets[position + 1]]

    def array(self) -> np.ndarray:
        """All rows of a column of numbers, or of lists of equal length."""
        found = np.concatenate([values for values, _ in self.chunks]) if self.chunks else np.zeros(0, dtype=np.int64)
        return found if self.rows is None else found[self.rows]


def column_views(data: Any, name: str) -> Views:
    """A column of a `datasets.Dataset`; selected rows are supported."""
    selected = dataset_indices(data)
    return Views(data.data.table[name], None if selected is None else selected.column(0).to_numpy())


def column_array(data: Any, name: str) -> np.ndarray:
    """A column of numbers, or of lists of equal length, in 64 bits."""
    found = column_views(data, name).array()
    return found.astype(np.int64 if found.dtype.kind in "iu" else np.float64, copy=False)


def joined_rows(data: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated token ids of at least one row, and the offset of each row."""
    ids = column_views(data, "input_ids")
    parts = [ids[row] for row in rows.tolist()]
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def _parts(chunk: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The values of a chunk, and the offsets of its rows if rows are lists of any length."""
    kind = chunk.type
    if pa.types.is_fixed_size_list(kind):
        return chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), kind.list_size), None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return chunk.values.to_numpy(zero_copy_only=False), chunk.offsets.to_numpy(zero_copy_only=False)
    return chunk.to_numpy(zero_copy_only=False), None
