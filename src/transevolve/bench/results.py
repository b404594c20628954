"""Numbers on disk: finished rows are kept, and the same command adds what is missing."""

import hashlib
import json
import shlex
from dataclasses import MISSING, asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ..core.files import write_atomically
from ..core.machine import allocator, commit, device_name, load_average, versions
from .options import BenchOptions

NOT_SETTINGS = ("output", "name", "restart")


@dataclass
class Row:
    """One system at one length: every repeat, or why there is none."""

    system: str
    backend: str
    size: str
    length: int
    batch: int | None = None
    parameters: int | None = None
    features: int | None = None
    seconds: list[float] = field(default_factory=list)
    peak_bytes: int | None = None
    peak_counted_by: str | None = None
    note: str | None = None
    commit: str | None = None


@dataclass
class Results:
    """A benchmark's settings, header and rows, and the file they are kept in."""

    path: Path
    settings: dict[str, Any]
    header: dict[str, str]
    rows: list[Row]

    def finished(self, length: int, system: str | None = None) -> bool:
        return any(row.length == length and system in (None, row.system) for row in self.rows)

    def add(self, rows: list[Row]) -> None:
        """Rows go to disk at once and whole: a stop never leaves half a file."""
        self.rows.extend(rows)
        content = {
            "settings_hash": settings_hash(self.settings),
            "settings": self.settings,
            "header": self.header,
            "rows": [asdict(row) for row in self.rows],
        }
        write_atomically(self.path, json.dumps(content, indent=1) + "\n")


def open_results(kind: str, options: BenchOptions) -> Results:
    """What an earlier run of the same settings left, or an empty sheet."""
    path = Path(options.output) / f"{options.name or kind}.json"
    settings = _settings(kind, options)
    if options.restart or not path.exists():
        return Results(path, settings, header(kind, options), [])
    try:
        stored = json.loads(path.read_text())
        theirs, rows = stored["settings"], [Row(**row) for row in stored["rows"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no benchmark results; --restart overwrites it, --name avoids it") from error
    if stored["settings_hash"] != settings_hash(settings):
        keys = [key for key in {**theirs, **settings} if theirs.get(key) != settings.get(key)]
        shown = ", ".join(f"{key} was {theirs.get(key)}, is {settings.get(key)}" for key in keys)
        raise ValueError(
            f"{path} was measured with other settings ({shown});"
            " --restart starts anew, another --name or --output keeps both"
        )
    return Results(path, settings, stored["header"], rows)


def _settings(kind: str, options: BenchOptions) -> dict[str, Any]:
    """What a number depends on: the options, and the machine and versions it was measured with."""
    chosen = {key: value for key, value in asdict(options).items() if key not in NOT_SETTINGS}
    machine = {
        "machine": device_name(options.device),
        "torch": torch.__version__,
        "threads": _threads(options),
        "allocator": allocator(),
    }
    return {"benchmark": kind, **chosen, **machine}


def _threads(options: BenchOptions) -> int:
    return options.threads or torch.get_num_threads()


def settings_hash(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def header(kind: str, options: BenchOptions) -> dict[str, str]:
    """What a reader needs to believe a table, and to make it again."""
    specs = options.specs()
    features = "configuration's own" if options.features is None else str(options.features)
    return {
        "command": command_line(f"transevolve bench {kind}", options),
        "machine": device_name(options.device),
        "threads": str(_threads(options)),
        "allocator": allocator(),
        "load before": f"{load_average():.2f}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "commit": commit() or "not a checkout",
        "backends": ", ".join(dict.fromkeys(f"{spec.text} = {spec.backend}" for spec in specs)),
        "features": features if any(spec.has_features for spec in specs) else "none of these systems has any",
        "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def command_line(program: str, options: BenchOptions) -> str:
    """The command that gives these options: whatever is not a default."""
    words = program.split()
    for f in fields(options):
        value = getattr(options, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if value == default or f.name == "restart":
            continue
        words += [f"--{f.name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)
