"""`metrics.jsonl`: the metrics of a run over time."""

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
        raise ValueError("step, epoch or seconds is missing")
    return row


Row: Any = Annotated[dict[str, int | float], AfterValidator(_complete)]


class MetricsFile:
    """One measurement per line, with its step, epoch and seconds of training."""

    def __init__(self, folder: Path):
        self.path = folder / METRICS

    def rows(self) -> list[dict[str, Any]]:
        """Returns all measurements. Damaged lines are skipped with a warning, an incomplete last line without one."""
        found, damaged = read_json_lines(self.path, Row)
        if damaged:
            say(f"warning: {self.path}: skipped damaged line {', '.join(map(str, damaged))}")
        return found

    def drop_after(self, step: int) -> None:
        """Removes the measurements that a killed run made after the checkpoint from which it resumes."""
        if os.path.lexists(self.path):
            kept = [row for row in self.rows() if row["step"] <= step]
            write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def append(self, row: dict[str, Any]) -> None:
        append_line(self.path, json.dumps(row))
