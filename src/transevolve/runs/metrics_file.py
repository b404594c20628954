"""`metrics.jsonl`, the record of a training."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from ..core.files import append_line, write_atomically
from ..core.json_files import read_json_lines
from ..core.messages import say
from .names import METRICS


def _complete(row: dict[str, int | float]) -> dict[str, int | float]:
    if not row.keys() >= {"step", "epoch", "seconds"}:
        raise ValueError("a measurement has its step, epoch and seconds")
    return row


Row: Any = Annotated[dict[str, int | float], AfterValidator(_complete)]


class MetricsFile:
    """`metrics.jsonl`: one measurement per line, with its step, its epoch and the seconds trained so far."""

    def __init__(self, folder: Path):
        self.path = folder / METRICS

    def rows(self) -> list[dict[str, Any]]:
        """Every measurement that can be read. A damaged line is skipped with a warning; a killed run may leave a
        part of a last line, which is not worth one."""
        found, damaged = read_json_lines(self.path, Row)
        if damaged:
            say(f"warning: {self.path}: damaged and skipped: line {', '.join(map(str, damaged))}")
        return found

    def forget_after(self, step: int) -> None:
        """Drops what a killed run measured after the checkpoint that is resumed."""
        if os.path.lexists(self.path):
            kept = [row for row in self.rows() if row["step"] <= step]
            write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def append(self, row: dict[str, Any]) -> None:
        append_line(self.path, json.dumps(row))
