"""Records of a sweep: one small file per finished case with its settings and results, to keep under version control."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.files import dotted, train_command
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import write_atomically
from ..core.json_files import read_json
from ..core.public import public
from .claim import INCONSEQUENTIAL

# Settings that may differ between machines that share records.
LOCAL = INCONSEQUENTIAL | {"data.path", "training.threads", "training.memory", "training.save_steps"}


@dataclass(frozen=True)
class Record:
    settings: dict[str, Any]
    results: dict[str, Any]


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The settings that differ from their defaults and affect the results."""
    plain, averaged = dotted(Recipe()), {"training.save_steps"} if recipe.training.average else set()
    local = LOCAL - averaged
    return {key: value for key, value in dotted(recipe).items() if key not in local and value != plain[key]}


def keep(path: Path, recipe: Recipe, results: dict[str, Any]) -> dict[str, Any]:
    """Write the record; returns its results, without local paths and with a command that trains the case."""
    kept = public({**results, "command": command_of(recipe)})
    write_atomically(path, json.dumps({"settings": settings_of(recipe), "results": kept}, indent=1) + "\n")
    return kept


def command_of(recipe: Recipe) -> str:
    """The command that trains this recipe, with the path of its data reduced to a file name."""
    path = {} if recipe.data.path is None else {"data.path": public(recipe.data.path)}
    return train_command(None, settings_of(recipe) | path)


def find(path: Path, recipe: Recipe) -> dict[str, Any] | None:
    """The results recorded for this recipe, if any; a record of other settings is an error."""
    if not path.exists():
        return None
    record, settings = read_json(path, Record), settings_of(recipe)
    for key in sorted({*record.settings, *settings}):
        before, now = record.settings.get(key), settings.get(key)
        if before != now:
            raise UserError(f"{path} was recorded with {key} {before}, not {now}: remove it to train this case again")
    return record.results
