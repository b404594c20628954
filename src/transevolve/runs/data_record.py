"""`data.json`: the data of a run, identified by content, and their location."""

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
    """The data of a run and how they were prepared.

    Args:
        directory: Base directory of relative paths in the recipe.
        files: SHA-256 checksum of each file.
        filled: Keys of the recipe that were not set by the user; their values are the defaults that were used.
        lines: Number of lines of each file.
        prepared: Name of the prepared data in the cache, which is their fingerprint.
        tokenizer: SHA-256 checksum of the tokenizer.
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
        """Reads the record of a run; None if there is none, as in version 0.1."""
        path = folder / DATA
        return read_json(path, cls) if path.exists() else None

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def locate_data(folder: Path, options: DataOptions) -> DataOptions:
    """Resolves relative paths from the directory in which the run was trained, if the files still exist there."""
    record = DataRecord.read(folder)
    return options if record is None else located(options, Path(record.directory))


@dataclass(frozen=True)
class Changes:
    """The settings whose files changed, such as "data.path, data.test", and details for each file."""

    settings: str
    details: str


def data_changes(folder: Path, options: DataOptions, split: Split | None = None) -> Changes | None:
    """Returns the changes of the data since the run started; None if there are none, or if it is not known."""
    record = DataRecord.read(folder)
    changed = [] if record is None else changed_files(record.files, options, split)
    if record is None or not changed:
        return None
    files = data_files(options)
    details = [_detail(files.get(name), record.lines.get(name)) for name in changed]
    return Changes(", ".join(f"data.{name}" for name in changed), "; ".join(filter(None, details)))


def _detail(path: Path | None, before: int | None) -> str:
    if path is None:
        return "a file no longer exists"
    now = contents_of(path).lines
    if before is None or now is None:
        return f"{path} is new or has different content"
    return f"{path} has {now:,} lines, had {before:,}" if now != before else f"{path} still has {now:,} lines"


def require_same_data(folder: Path, options: DataOptions, remedy: str, split: Split | None = None) -> None:
    changed = data_changes(folder, options, split)
    if changed is not None:
        raise UserError(
            f"{changed.settings} changed since the training of {folder} started: {remedy} ({changed.details})"
        )


def require_same_prepared(folder: Path, data: TextData) -> None:
    """Raises if the tokenizer, or the fingerprint of the prepared data, is not that of the run."""
    record = DataRecord.read(folder)
    if record is None or data.folder is None or record.prepared is None:
        return
    if record.tokenizer != data.tokenizer_sha256:
        raise UserError(
            f"the tokenizer trained on the data differs from the one of {folder} (another version of transevolve or"
            " tokenizers?): resume with the version that started the run, or choose another --output"
        )
    if record.prepared != data.folder.name:
        raise UserError(
            f"the data differ from those that {folder} was trained on: their fingerprint is {data.folder.name}, was"
            f" {record.prepared} (another revision of data.hub, or another version of transevolve?): restore them to"
            " resume, or choose another --output"
        )
