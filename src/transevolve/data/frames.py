"""Tables in memory, such as pandas DataFrames, stored as files so that a run can read its data again."""

import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..core.errors import UserError
from ..core.files import write_atomically
from .cache_folder import cache_folder, write_errors
from .columns import TEXT_NAMES, recognized
from .options import SPLITS

if TYPE_CHECKING:
    import pandas as pd

FRAMES = "frames"


def is_frame(value: Any) -> bool:
    """Whether the value is a DataFrame or a `datasets.Dataset`."""
    return (hasattr(value, "columns") and hasattr(value, "iloc")) or hasattr(value, "column_names")


def stored(data: Any, cache: str | None = None) -> str:
    """The path of the data; a frame, or a mapping of splits to frames, is first written to a file or folder.

    The file is in the cache and named by a hash of its contents, so that an interrupted run can resume.
    """
    if isinstance(data, str | Path):
        return str(data)
    folder = cache_folder(cache) / FRAMES
    if is_frame(data):
        content = _parquet(data)
        path = folder / f"{_digest(content)}.parquet"
        _write(path, content)
        return str(path)
    if isinstance(data, Mapping) and data and all(name in SPLITS and is_frame(value) for name, value in data.items()):
        parts = {name: _parquet(frame) for name, frame in data.items()}
        path = folder / _digest(*(f"{name}:".encode() + content for name, content in parts.items()))
        for name, content in parts.items():
            _write(path / f"{name}.parquet", content)
        return str(path)
    raise UserError(
        "data must be a path, a DataFrame, or a mapping of train, validation and test to DataFrames,"
        f" not a {type(data).__name__}"
    )


def text_list(texts: Any, column: str | list[str] | None = None) -> list[Any]:
    """Texts from a list, a Series, an array, or a column of a DataFrame; missing values become empty texts.

    Two columns of a DataFrame are pairs of texts.
    """
    if is_frame(texts):
        names = [str(name) for name in getattr(texts, "column_names", None) or texts.columns]
        if isinstance(column, list) and set(column) <= set(names):
            return list(zip(*(text_list(texts[name]) for name in column), strict=True))
        column = column if column in names else names[0] if len(names) == 1 else recognized(names, TEXT_NAMES, set())
        if column is None:
            raise UserError(
                f"the DataFrame has no column of texts, only {', '.join(map(str, names))}: pass one of them"
            )
        texts = texts[column]
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise UserError(f"texts must be a text or a list of texts, not a {type(texts).__name__}")
    return [_text(text, number) for number, text in enumerate(texts, start=1)]


def _text(value: Any, number: int) -> Any:
    if value is None or value != value:
        return ""
    if isinstance(value, str | tuple | list):
        return value
    raise UserError(f"text {number} is a {type(value).__name__}, not a text")


def _parquet(frame: Any) -> bytes:
    table: pd.DataFrame = frame.to_pandas() if hasattr(frame, "column_names") else frame
    table = table.rename(columns=str)
    file = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None), file)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"the DataFrame has a column of mixed types ({error}): convert it to one") from None
    return file.getvalue()


def _digest(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()[:16]


def _write(path: Path, content: bytes) -> None:
    if not path.exists():
        with write_errors(path.parent):
            write_atomically(path, content)
