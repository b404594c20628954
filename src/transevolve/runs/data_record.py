"""`data.json`: which data a run is trained on, by their contents, and where they were."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..core.errors import UserError
from ..core.json_files import read_json
from ..data import TextData
from ..data.contents import contents_of
from ..data.fingerprints import changed_files, contents, data_files, located
from ..data.options import DataOptions, Split
from .names import DATA


@dataclass(frozen=True)
class DataRecord:
    """Which data, how they were prepared, and what a run's recipe does not say.

    Args:
        directory: What relative paths of the recipe are relative to.
        files: The sha256 of each file.
        filled: Keys of the recipe that were not set, and have the values that were used.
        lines: The number of lines of each file.
        prepared: The name of the prepared data in the cache, which is their fingerprint.
        tokenizer: The sha256 of the tokenizer.
    """

    directory: str
    files: dict[str, str]
    filled: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    prepared: str | None = None
    tokenizer: str | None = None

    @classmethod
    def of(cls, options: DataOptions, data: TextData, filled: list[str]) -> "DataRecord":
        found = contents(options)
        return cls(
            os.getcwd(),
            {name: content.sha256 for name, content in found.items()},
            filled,
            {name: content.lines for name, content in found.items() if content.lines is not None},
            None if data.folder is None else data.folder.name,
            data.tokenizer_sha256,
        )

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


@dataclass(frozen=True)
class Changes:
    """The settings whose files changed, as in "data.path, data.test", and what is different, file by file."""

    settings: str
    details: str


def data_changes(folder: Path, options: DataOptions, split: Split | None = None) -> Changes | None:
    """What has changed in the data since the run started; None if nothing has, or if that is not known."""
    record = DataRecord.read(folder)
    changed = [] if record is None else changed_files(record.files, options, split)
    if record is None or not changed:
        return None
    files = data_files(options)
    details = [_detail(files.get(name), record.lines.get(name)) for name in changed]
    return Changes(", ".join(f"data.{name}" for name in changed), "; ".join(filter(None, details)))


def _detail(path: Path | None, before: int | None) -> str:
    if path is None:
        return "a file is no longer there"
    now = contents_of(path).lines
    if before is None or now is None:
        return f"{path} holds something else, or was not there"
    return f"{path} has {now:,} lines, had {before:,}" if now != before else f"{path} has {now:,} lines as before"


def require_same_data(folder: Path, options: DataOptions, remedy: str, split: Split | None = None) -> None:
    changed = data_changes(folder, options, split)
    if changed is not None:
        raise UserError(
            f"{changed.settings} changed since the training of {folder} started: {remedy} ({changed.details})"
        )


def require_same_prepared(folder: Path, data: TextData) -> None:
    """Refuses prepared data of another fingerprint, and a tokenizer other than the one that the weights know."""
    record = DataRecord.read(folder)
    if record is None or data.folder is None or record.prepared is None:
        return
    if record.tokenizer != data.tokenizer_sha256:
        raise UserError(
            f"the tokenizer made from the data is not the one that {folder} was trained with (another version of"
            " transevolve or tokenizers?): resume with the version that started it, or train into another --output"
        )
    if record.prepared != data.folder.name:
        raise UserError(
            f"the data are not those that {folder} was trained on: their fingerprint is {data.folder.name}, was"
            f" {record.prepared} (another revision of data.hub, or another version of transevolve?): restore them to"
            " resume, or train into another --output"
        )
