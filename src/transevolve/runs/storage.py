"""Folders that are complete or absent: written under another name, summed, then renamed; checked when they are read."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import UserError
from ..core.files import remove, write_atomically
from ..core.json_files import read_json
from .names import CONFIG, MANIFEST, PARTIAL

CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class DamagedFolder(UserError):
    """A folder whose files are not those its manifest names."""


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, names: Iterable[str] | None = None) -> None:
    """Lists files, by default all of the folder's, with their sha256 sums."""
    if names is None:
        names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST]
    sums = {name: checksum(folder / name) for name in sorted(names)}
    write_atomically(folder / MANIFEST, json.dumps({"sha256": sums}, indent=1) + "\n")


def check_manifest(folder: Path) -> list[str]:
    """The files that the manifest names; raises `DamagedFolder` unless they are a model, and as they were written."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DamagedFolder(f"{folder} has no {MANIFEST}: it was not completely written")
    try:
        named = read_json(path, dict[str, dict[str, str]])["sha256"]
    except (UserError, KeyError):
        raise DamagedFolder(f"{path} is damaged: it is not a list of checksums") from None
    if CONFIG not in named or not any(name.endswith(".safetensors") for name in named):
        raise DamagedFolder(f"{path} is damaged: it names no model")
    for name, expected in named.items():
        file = folder / name
        if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):  # a link may lead to itself
            raise DamagedFolder(f"{path} names {name!r}, which is outside its folder")
        if not file.is_file():
            raise DamagedFolder(f"{file} is missing: the folder is damaged")
        if checksum(file) != expected:
            raise DamagedFolder(f"{file} is damaged: its contents are not those that were written")
    return list(named)


def is_whole(folder: Path) -> bool:
    try:
        check_manifest(folder)
    except DamagedFolder:
        return False
    return True


def publish(partial: Path, final: Path) -> None:
    """Gives a complete folder its name; if there is one of that name, one of the two survives a kill."""
    write_manifest(partial)
    remove(final)
    os.replace(partial, final)


def recover(folder: Path) -> None:
    """Publishes a checkpoint that was complete but not yet renamed when its process was killed; removes other parts."""
    partial = folder / PARTIAL
    if partial.is_dir() and not partial.is_symlink():
        for step, path in checkpoints(partial):
            final = folder / f"checkpoint-{step}"
            if is_whole(path) and not is_whole(final):
                remove(final)
                os.replace(path, final)
    remove(partial)


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints in a folder with their steps, oldest first."""
    found = [(CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("checkpoint-*")]
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def rotate(folder: Path, keep: int, also: set[int]) -> None:
    """Removes all but the newest checkpoints and those of the steps in `also`."""
    for step, path in checkpoints(folder)[:-keep]:
        if step not in also:
            remove(path)
