"""Results on disk: finished rows are kept, and the same command measures what is missing."""

import json
import shlex
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ..core.errors import UserError
from ..core.files import write_atomically
from ..core.json_files import read_json
from ..core.machine import describe_machine
from .options import RunOptions

NOT_SETTINGS = ("output", "name", "restart")
MACHINE_SETTINGS = ("machine", "cpu flags", "threads", "OpenMP", "allocator")


@dataclass
class Row:
    """One system at one length: the time of every repeat, or a note with the reason why there is none.

    In decoding, `way` is how tokens are decoded and `length` counts the tokens decoded.
    """

    system: str
    backend: str
    size: str
    length: int
    batch: int | None = None
    parameters: int | None = None
    features: int | None = None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    peak_counted_by: str | None = None
    way: str | None = None
    self_bytes: int | None = None
    cross_bytes: int | None = None
    note: str | None = None
    commit: str | None = None

    @property
    def label(self) -> str:
        return self.system if self.way is None else f"{self.system}, {self.way}"


@dataclass
class Results:
    """The settings, header and rows of a benchmark, and the file they are stored in."""

    path: Path
    settings: dict[str, Any]
    header: dict[str, str]
    rows: list[Row]

    @property
    def benchmark(self) -> str:
        return str(self.settings.get("benchmark"))

    def find(self, system: str, length: int, way: str | None = None) -> Row | None:
        return next((row for row in self.rows if (row.system, row.length, row.way) == (system, length, way)), None)

    def save(self) -> None:
        content = {"settings": self.settings, "header": self.header, "rows": [asdict(row) for row in self.rows]}
        write_atomically(self.path, json.dumps(content, indent=1) + "\n")


@dataclass(frozen=True)
class _Stored:
    settings: dict[str, Any]
    rows: list[Row]
    header: dict[str, str] = field(default_factory=dict)


def read_benchmark(path: Path) -> Results:
    """A file written by `transevolve bench`."""
    if not {"settings", "rows"} <= read_json(path, dict[str, Any]).keys():
        raise UserError(f"{path} contains no benchmark results: `transevolve bench` did not write it")
    stored = read_json(path, _Stored)
    return Results(path, stored.settings, stored.header, stored.rows)


def open_results(benchmark: str, options: RunOptions) -> Results:
    """The results of an earlier run with the same settings, or an empty table."""
    path = Path(options.output) / f"{options.name or benchmark}.json"
    header = _header(benchmark, options)
    settings = {
        "benchmark": benchmark,
        **{key: value for key, value in asdict(options).items() if key not in NOT_SETTINGS},
        "torch": torch.__version__,
        **{key: header[key] for key in MACHINE_SETTINGS},
    }
    if options.restart or not path.exists():
        return Results(path, settings, header, [])
    try:
        stored = read_benchmark(path)
    except UserError as error:
        raise UserError(f"{error}; --restart overwrites it, another --name keeps it") from None
    before = stored.settings
    changed = [key for key in {**before, **settings} if before.get(key) != settings.get(key)]
    if changed:
        shown = ", ".join(f"{key} was {before.get(key)}, is {settings.get(key)}" for key in changed)
        raise UserError(
            f"{path} was measured with other settings ({shown});"
            " --restart overwrites it, another --name or --output keeps both"
        )
    return stored


def _header(benchmark: str, options: RunOptions) -> dict[str, str]:
    """How a table was measured, and the command that measures it again."""
    specs = options.specs()
    header = {
        "command": command_line(f"transevolve bench {benchmark}", options),
        **describe_machine(options.device, options.threads),
        "backends": ", ".join(dict.fromkeys(f"{spec.text} = {spec.backend}" for spec in specs)),
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    if any(spec.has_features for spec in specs):
        header["features"] = str(getattr(options, "features", None) or "default of each system")
    return header


def command_line(program: str, options: RunOptions) -> str:
    """The command that sets these options: those that differ from their defaults."""
    words = program.split()
    for f in fields(options):
        value = getattr(options, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if value != default and f.name != "restart":
            words += [f"--{f.name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)
