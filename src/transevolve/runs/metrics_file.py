"""`metrics.jsonl`, the record of a training."""

import json
import os
from pathlib import Path
from typing import Any

from ..core.files import append_line, write_atomically
from ..core.messages import say
from .names import METRICS


class MetricsFile:
    """`metrics.jsonl`: one measurement per line, with its step, its epoch and the seconds trained so far."""

    def __init__(self, folder: Path):
        self.path = folder / METRICS

    def rows(self) -> list[dict[str, Any]]:
        """Every measurement that can be read. A damaged line is skipped with a warning; a killed run may leave a
        part of a last line, which is not worth one."""
        if not self.path.is_file():
            return []
        lines = self.path.read_bytes().splitlines()
        rows = [_row(line) for line in lines]
        damaged = [number for number, row in enumerate(rows, start=1) if row is None and number < len(rows)]
        if damaged:
            say(f"warning: {self.path}: damaged and skipped: line {', '.join(map(str, damaged))}")
        return [row for row in rows if row is not None]

    def forget_after(self, step: int) -> None:
        """Drops what a killed run measured after the checkpoint that is resumed."""
        if os.path.lexists(self.path):
            kept = [row for row in self.rows() if row["step"] <= step]
            write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def append(self, row: dict[str, Any]) -> None:
        append_line(self.path, json.dumps(row))


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        [float(row[name]) for name in ("step", "epoch", "seconds")]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return row
