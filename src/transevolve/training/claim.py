"""Checks that a folder can be used for a run: it is new, or contains the same run or nothing to resume."""

from collections.abc import Collection
from pathlib import Path

from ..config.files import dotted
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..kinds.registry import resolve
from ..runs.data_record import DataRecord, data_changes, require_same_data
from ..runs.folder import load_run_recipe
from ..runs.lock import has_content
from ..runs.names import AVERAGE, CHECKPOINTS, MANIFEST, RECIPE, REFIT, RESULTS, SELF_TRAINING, TENSORBOARD
from ..runs.storage import checkpoints

# Settings that do not affect the weights.
INCONSEQUENTIAL = {"output", "data.cache", "training.keep", "training.log_steps", "training.workers"}
INCONSEQUENTIAL |= {"training.tensorboard"}
# Settings that every stored recipe contains, including those of version 0.1, as recognized in the data.
RECOGNIZED = {"data.text", "data.label"}
CHANGED_DATA = "restore the file to resume, or train again into another --output"


def require_own_folder(folder: Path, recipe: Recipe, ours: bool) -> None:
    """Raise an error if the folder contains other files, another run, or symbolic links.

    `ours` is whether a run has locked the folder before; if not, its `recipe.yaml` must not be replaced.
    """
    for name in (AVERAGE, CHECKPOINTS, REFIT, SELF_TRAINING, TENSORBOARD):
        if (folder / name).is_symlink():
            raise UserError(f"{folder / name} is a symbolic link, which a run folder must not have: remove it")
    if not (folder / RECIPE).is_file():
        if has_content(folder):
            raise UserError(f"{folder} is not empty and not a run: choose another --output")
        return
    if ours and not checkpoints(folder / CHECKPOINTS) and not (folder / MANIFEST).exists():
        return
    before = load_run_recipe(folder)
    resolve(before)
    if recipe.training.precision == "auto":  # a resumed run keeps its precision, also on another machine
        recipe.training.precision = before.training.precision
    record = DataRecord.read(folder)
    changed = differences(before, recipe, {*RECOGNIZED, *(record.filled if record else dotted(recipe))})
    if changed:
        raise UserError(
            f"{folder} contains another training ({changed[0]}): choose another --output, or remove the folder"
        )
    if (folder / RESULTS).exists():
        require_unchanged(folder, recipe)
    else:
        require_same_data(folder, recipe.data, CHANGED_DATA)


def require_unchanged(folder: Path, recipe: Recipe) -> None:
    """Raise an error if the run is finished and its data have changed since."""
    changed = data_changes(folder, recipe.data)
    if changed is not None:
        raise UserError(
            f"{folder} is finished, and {changed.settings} changed since then ({changed.details}): choose another"
            f" --output to train on the new data; {folder / RESULTS} has the results on the old data"
        )


def differences(before: Recipe, now: Recipe, filled: Collection[str]) -> list[str]:
    """The relevant settings that differ, as "key was value, is value". Settings filled in then may be unset now."""
    old, new = dotted(before), dotted(now)
    free = INCONSEQUENTIAL | {key for key in filled if new.get(key) is None}
    changed = [key for key in new if key not in free and old[key] != new[key]]
    return [f"{key} was {old[key]}, is {new[key]}" for key in changed]
