"""Trains a model from a recipe; the same call resumes an interrupted run."""

from contextlib import ExitStack
from pathlib import Path

import torch

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import report_full_disk
from ..core.machine import flushed_denormals
from ..core.messages import say
from ..data import load_data
from ..kinds.registry import decide
from ..kinds.start import settle
from ..kinds.systems import unused
from ..runs.lock import locked
from ..runs.names import RESULTS
from ..runs.results import Result, numbers, read_results
from ..runs.storage import check_manifest
from .callbacks.signals import StopOnSignal
from .claim import require_own_folder
from .hf_arguments import check_packages, check_training
from .precision import Precision, choose_precision
from .processes import decided_by_main, join_processes
from .run import Run
from .self_training import check_self_training


def train(recipe: Recipe, command: str) -> Result:
    """Train, select on validation, reload the model from disk, score it, and write the results."""
    kind, tokenizer = settle(recipe)
    check_training(recipe.training)
    check_packages(recipe.training)
    check_self_training(recipe, kind)
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    folder = Path(recipe.output or default_output(recipe))
    recipe.output = str(folder)
    state = join_processes()
    with ExitStack() as held, StopOnSignal() as stop, report_full_disk(folder), flushed_denormals():
        recipe.training.precision, why = decided_by_main(state, lambda: _take(folder, recipe, held))
        finished = read_result(folder)
        if finished is not None:
            if state.is_main_process:
                say(f"{folder} is already finished; these are its results")
            return finished
        data = load_data(recipe.data, tokenizer=tokenizer)
        kind.check_vocabulary(recipe, len(data.tokenizer))
        decided = decide(kind, recipe, data)
        if state.is_main_process:
            prepared = [] if data.folder is None else [f"prepared data: {data.folder}"]
            notes = [*kind.notes(recipe, data), *baseline_lines(kind.baseline(data))]
            say("\n".join([*data.report.lines(), *prepared, *notes]))
            if why is not None:
                say(f"training in {recipe.training.precision}: {why}")
            ignored = [key for key in unused(recipe.model) if key not in decided]
            if ignored:
                say(f"note: {', '.join(ignored)}: not used by {recipe.model.system}")
        return Run(recipe, folder, data, state, stop, kind, decided).result(command)


def _take(folder: Path, recipe: Recipe, held: ExitStack) -> tuple[Precision, str | None]:
    """Lock the folder and check that it can be used; returns the precision, and why it was chosen."""
    ours = held.enter_context(locked(folder))
    require_own_folder(folder, recipe, ours)
    return choose_precision(recipe.training.precision)


def baseline_lines(baseline: dict[str, dict[str, float]]) -> list[str]:
    """The scores of the best constant prediction, as text."""
    return [f"best constant prediction on {split}: {numbers(found)}" for split, found in baseline.items()]


def default_output(recipe: Recipe) -> str:
    return f"runs/{recipe.data.task}-{recipe.model.label}-{recipe.training.seed}"


def read_result(folder: Path) -> Result | None:
    """The result of a finished run; None if it is not finished, or if its files are damaged."""
    try:
        check_manifest(folder)
        return read_results(folder / RESULTS)
    except (UserError, TypeError):
        return None
