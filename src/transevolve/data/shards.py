"""Reads several files as one table: `train-00000-of-00002.csv` and so on, or a folder `train`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..core.errors import UserError
from .options import Split
from .tables import FIRST_OF_NEXT, Record, Table, open_table, table_format

NUMBERED = re.compile(r"-\d+-of-\d+")


def existing(name: str | Path, key: str) -> Path:
    """The path of a file or folder that `data.KEY` names."""
    path = Path(name)
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder; check data.{key}")
    return path


def split_name(file: Path) -> str:
    """The split in a file name: the part before the first dot, without the shard number."""
    return NUMBERED.sub("", file.name.split(".")[0].lower())


def is_shard(file: Path) -> bool:
    return NUMBERED.search(file.name.split(".")[0]) is not None


def parts_of(path: Path) -> list[Path]:
    """The file, or the files in the folder, sorted by name, without hidden files."""
    if not path.is_dir():
        return [path]
    return [file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith(".")]


def shards(path: Path) -> list[Path]:
    """The file, or the tables in the folder."""
    found = [file for file in parts_of(path) if file == path or table_format(file) is not None]
    if not found:
        raise UserError(f"{path}: there is no table in this folder; put .csv, .tsv, .jsonl or .parquet files in it")
    return found


def open_tables(paths: Sequence[Path]) -> Table:
    """All files as one table; each needs the columns of the first."""
    first, *others = tables = [open_table(path) for path in paths]
    if not others:
        return first
    for table in others:
        missing = [name for name in first.columns if name not in table.columns]
        if missing:
            raise UserError(f"{table.file}: there is no column {missing[0]!r}, which {first.file} has; add it")
        if table.unit != first.unit:
            raise UserError(f"{table.file} and {first.file} have different formats: use one format for all parts")

    def select(names: Sequence[str]) -> Iterator[Record]:
        for part, table in enumerate(tables):
            for number, values in table.select(names):
                yield part * FIRST_OF_NEXT + number, values

    return Table(file_names(paths), first.unit, first.columns, select, files=[table.file for table in tables])


def file_names(files: Sequence[Path]) -> str:
    """The names of up to three files, and the number of further ones."""
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return " and ".join(map(str, files[:3])) + more


def names_of_files(files: Mapping[Split, Sequence[Path]]) -> dict[Split, str]:
    """The name of each split in the report."""
    return {split: file_names(paths) for split, paths in files.items()}
