"""User files: one file, or a folder with train, validation and test files, optionally in shards."""

from functools import partial
from pathlib import Path

from ..core.errors import UserError, quoted
from .options import DataOptions, Split
from .shards import existing, is_shard, names_of_files, open_tables, shards, split_name
from .sources import Source
from .tables import FORMATS, table_format

SPLIT_NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


def file_source(options: DataOptions) -> Source:
    files = split_files(options)
    return Source(
        names=names_of_files(files),
        tables={split: partial(open_tables, paths) for split, paths in files.items()},
        options=options,
    )


def split_files(options: DataOptions) -> dict[Split, list[Path]]:
    """The files of each split: those in the folder, or one file as train, plus those named in the options."""
    found: dict[Split, list[Path]] = {}
    if options.path is not None:
        path = existing(options.path, "path")
        found = _in_folder(path) if path.is_dir() else {"train": [path]}
    if isinstance(options.validation, str):
        found["validation"] = shards(Path(options.validation))
    if options.test is not None:
        found["test"] = shards(Path(options.test))
    return found


def _in_folder(folder: Path) -> dict[Split, list[Path]]:
    available = sorted(folder.iterdir())
    found: dict[Split, list[Path]] = {}
    for split, names in SPLIT_NAMES.items():
        named = [path for path in available if split_name(path) in names]
        files = [path for path in named if path.is_file() and table_format(path)]
        fitting = files or [path for path in named if path.is_dir()]
        if len(fitting) > 1 and not all(map(is_shard, fitting)):
            raise UserError(f"{folder}: {quoted(path.name for path in fitting)} could each be {split}; keep one")
        if fitting:
            found[split] = [file for path in fitting for file in shards(path)]
    if "train" not in found:
        listed = quoted(path.name for path in available if path.is_file()) or "no file"
        raise UserError(
            f"{folder}: there is no training file; looked for train or training with {', '.join(FORMATS)}"
            f" (plain or .gz), found {listed}"
        )
    return found
