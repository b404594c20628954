"""`data.json`: which data a run is trained on, by their contents, and where they were."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..core.errors import UserError
from ..core.json_files import read_json
from ..data.fingerprints import changed_files, fingerprints, located
from ..data.options import DataOptions, Split
from .names import DATA


@dataclass(frozen=True)
class DataRecord:
    """What a run's recipe does not say.

    Args:
        directory: What relative paths of the recipe are relative to.
        files: A sha256 for each file.
        filled: Keys of the recipe that were not set, and have the values that were used.
    """

    directory: str
    files: dict[str, str]
    filled: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, options: DataOptions, filled: list[str]) -> "DataRecord":
        return cls(os.getcwd(), fingerprints(options), filled)

    @classmethod
    def read(cls, folder: Path) -> "DataRecord | None":
        """None for a run that has none, as those of version 0.1."""
        path = folder / DATA
        return read_json(path, cls) if path.exists() else None

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def found_data(folder: Path, options: DataOptions) -> DataOptions:
    """The options of a run's data, with paths as they were when it was trained, if the files are still there."""
    record = DataRecord.read(folder)
    return options if record is None else located(options, Path(record.directory))


def data_changes(folder: Path, options: DataOptions, split: Split | None = None) -> str | None:
    """What has changed in the data since the run started; None if nothing has, or if that is not known."""
    record = DataRecord.read(folder)
    changed = [] if record is None else changed_files(record.files, options, split)
    if not changed:
        return None
    return ", ".join(f"data.{name}" for name in changed)


def require_same_data(folder: Path, options: DataOptions, remedy: str, split: Split | None = None) -> None:
    changed = data_changes(folder, options, split)
    if changed is not None:
        raise UserError(f"{changed} changed since the training of {folder} started: {remedy}")
