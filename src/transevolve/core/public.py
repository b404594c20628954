"""Removes this machine's folders from what is published."""

import shlex
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any


def public(value: Any) -> Any:
    """Replaces absolute paths, also in lists and mappings, by their file names."""
    if isinstance(value, dict):
        return {key: public(one) for key, one in value.items()}
    if isinstance(value, list):
        return [public(one) for one in value]
    if not isinstance(value, str):
        return value
    for kind in (PurePosixPath, PureWindowsPath):
        if kind(value).is_absolute() or value.startswith("~"):
            return kind(value).name
    return value


def public_command(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return shlex.join("=".join(public(part) for part in word.split("=")) for word in words)
