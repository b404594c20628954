"""Folders that are complete or absent: written under a temporary name, checksummed, renamed, and checked when read."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import UserError
from ..core.files import checksum, remove, write_atomically
from ..core.json_files import read_json
from .names import CONFIG, MANIFEST, PARTIAL

CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class DamagedFolder(UserError):
    """A folder whose files do not match its manifest."""


def write_manifest(folder: Path, names: Iterable[str] | None = None) -> None:
    """Writes the SHA-256 checksums of files, by default of all files in the folder."""
    if names is None:
        names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST]
    sums = {name: checksum(folder / name) for name in sorted(names)}
    write_atomically(folder / MANIFEST, json.dumps({"sha256": sums}, indent=1) + "\n")


def check_manifest(folder: Path) -> list[str]:
    """Returns the files in the manifest; raises `DamagedFolder` if a checksum does not match or there is no model."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DamagedFolder(f"{folder} has no {MANIFEST}: it was not written completely")
    try:
        named = read_json(path, dict[str, dict[str, str]])["sha256"]
    except (UserError, KeyError):
        raise DamagedFolder(f"{path} is damaged: it is not a list of checksums") from None
    if CONFIG not in named or not any(name.endswith(".safetensors") for name in named):
        raise DamagedFolder(f"{path} is damaged: it lists no model")
    for name, expected in named.items():
        file = folder / name
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):  # a link may point to itself
            raise DamagedFolder(f"{path} lists {name!r}, which is outside its folder")
        if not file.is_file():
            raise DamagedFolder(f"{file} is missing: the folder is damaged")
        if checksum(file) != expected:
            raise DamagedFolder(f"{file} is damaged: its checksum does not match")
    return list(named)


def is_complete(folder: Path) -> bool:
    try:
        check_manifest(folder)
    except DamagedFolder:
        return False
    return True


def publish(partial: Path, final: Path) -> None:
    """Renames a complete folder to `final`, replacing it; if the process is killed, one of the two remains."""
    write_manifest(partial)
    remove(final)
    os.replace(partial, final)


def recover(folder: Path) -> None:
    """Publishes a checkpoint that was complete but not yet renamed when its process was killed; removes the rest."""
    partial = folder / PARTIAL
    if partial.is_dir() and not partial.is_symlink():
        for step, path in checkpoints(partial):
            final = folder / f"checkpoint-{step}"
            if is_complete(path) and not is_complete(final):
                remove(final)
                os.replace(path, final)
    remove(partial)


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Returns the steps and paths of the checkpoints in a folder, oldest first."""
    found = [(CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("checkpoint-*")]
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def rotate(folder: Path, keep: int, protected: set[int]) -> None:
    """Removes all checkpoints except the newest `keep` and those of the `protected` steps."""
    for step, path in checkpoints(folder)[:-keep]:
        if step not in protected:
            remove(path)
