"""The user's own files: one file, or a folder with train, validation and test files."""

from functools import partial
from pathlib import Path

from ..core.errors import UserError, quoted
from .options import DataOptions, Split
from .sources import Source
from .tables import FORMATS, open_table, table_format

SPLIT_NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


def file_source(options: DataOptions) -> Source:
    files = split_files(options)
    return Source(
        names={split: str(path) for split, path in files.items()},
        tables={split: partial(open_table, path) for split, path in files.items()},
        options=options,
    )


def split_files(options: DataOptions) -> dict[Split, Path]:
    """The file of each split: those in the folder, or the one file as train; the options may name others."""
    found: dict[Split, Path] = {}
    if options.path is not None:
        path = Path(options.path)
        if not path.exists():
            raise UserError(f"{path}: there is no such file or folder; check data.path")
        found = _in_folder(path) if path.is_dir() else {"train": path}
    if isinstance(options.validation, str):
        found["validation"] = Path(options.validation)
    if options.test is not None:
        found["test"] = Path(options.test)
    return found


def _in_folder(folder: Path) -> dict[Split, Path]:
    files = [file for file in sorted(folder.iterdir()) if file.is_file()]
    found: dict[Split, Path] = {}
    for split, names in SPLIT_NAMES.items():
        fitting = [file for file in files if file.name.split(".")[0].lower() in names and table_format(file)]
        if len(fitting) > 1:
            raise UserError(f"{folder}: {quoted(file.name for file in fitting)} could each be {split}; keep one")
        if fitting:
            found[split] = fitting[0]
    if "train" not in found:
        there = quoted(file.name for file in files) or "no file"
        raise UserError(
            f"{folder}: there is no training file; looked for train or training with {', '.join(FORMATS)}"
            f" (plain or .gz), found {there}"
        )
    return found
