"""`metrics.jsonl`, the record of a training."""

import json
from pathlib import Path
from typing import Any

from ..core.files import write_atomically

METRICS = "metrics.jsonl"


class MetricsFile:
    """`metrics.jsonl`: one line a measurement, each with its step and the seconds trained so far."""

    def __init__(self, folder: Path):
        self.path = folder / METRICS

    def rows(self) -> list[dict[str, Any]]:
        """Up to the first line that is damaged."""
        if not self.path.exists():
            return []
        rows = []
        for line in self.path.read_bytes().splitlines():
            try:
                row = json.loads(line)
                [float(row[name]) for name in ("step", "epoch", "seconds")]
            except (ValueError, TypeError, LookupError):
                break
            rows.append(row)
        return rows

    def forget_after(self, step: int) -> None:
        """Drops what a killed run measured after the checkpoint that is resumed."""
        kept = [row for row in self.rows() if row["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def append(self, row: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
