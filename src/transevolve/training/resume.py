"""Finds the checkpoint to resume from, and the best checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import EarlyStoppingCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from ..config.recipe import TrainingOptions
from ..core.errors import UserError
from ..core.messages import say
from ..runs.folder import load_errors
from ..runs.storage import check_manifest, checkpoints, is_complete, recover
from .callbacks.validation import validated, validation_due


@dataclass(frozen=True)
class Resumption:
    """How to continue an earlier run.

    Args:
        checkpoint: The checkpoint to resume from; None starts from the beginning.
        finished: The best step, if training was finished.
        selected: The new best step and its metric, if the previous best checkpoint is lost.
    """

    checkpoint: Path | None = None
    finished: int | None = None
    selected: tuple[int | None, float | None] | None = None


def find_resumption(
    folder: Path, options: TrainingOptions, metric: str, greater_is_better: bool, validates: bool = True
) -> Resumption:
    """Clean up a folder of checkpoints and find the newest intact one."""
    recover(folder)
    for _, path in reversed(checkpoints(folder)):
        try:
            check_manifest(path)
            with load_errors(path):
                state = TrainerState.load_from_json(str(path / TRAINER_STATE_NAME))
                if validates and validation_due(state, not options.eval_steps) and not validated(state):
                    raise UserError(f"{path} was written before its validation")
                finished, selected = _finished(state, options), _select_again(folder, state, metric, greater_is_better)
        except UserError as error:
            say(f"warning: {error}; it is not used")
            continue
        if finished:
            best = selected[0] if selected else state.best_global_step
            return Resumption(path, best if validates else state.global_step)
        say(f"resuming from {path}")
        return Resumption(path, None, selected)
    if checkpoints(folder):
        say("no checkpoint is intact: starting from the beginning")
    return Resumption()


def _finished(state: TrainerState, options: TrainingOptions) -> bool:
    """Whether all steps were done, or early stopping ended training."""
    kept: Any = state.stateful_callbacks or {}
    waited = (
        kept.get(EarlyStoppingCallback.__name__, {}).get("attributes", {}).get("early_stopping_patience_counter", 0)
    )
    return state.global_step >= state.max_steps or bool(options.patience and waited >= options.patience)


def _select_again(
    folder: Path, state: TrainerState, metric: str, greater_is_better: bool
) -> tuple[int | None, float | None] | None:
    """The best of the intact checkpoints, if the best one is damaged or missing."""
    best = state.best_global_step
    if best is None or best == state.global_step or is_complete(folder / f"checkpoint-{best}"):
        return None
    scores = {row["step"]: row[f"eval_{metric}"] for row in state.log_history if f"eval_{metric}" in row}
    left = [step for step, path in checkpoints(folder) if step in scores and step <= state.global_step]
    left = [step for step in left if is_complete(folder / f"checkpoint-{step}")]
    chosen = (max if greater_is_better else min)(left, key=scores.__getitem__, default=None)
    instead = "none of the others was validated" if chosen is None else f"step {chosen} is the best of the others"
    say(f"warning: {folder / f'checkpoint-{best}'}, the best so far, is damaged or missing: {instead}")
    return chosen, None if chosen is None else scores[chosen]
