"""Orders logging, validation and saving, so that every checkpoint includes the validation of its step."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


def validated(state: TrainerState) -> bool:
    """Whether the model of this step has been scored."""
    rows = [row for row in state.log_history if row.get("step") == state.global_step]
    return any(name.startswith("eval_") for row in rows for name in row)


def validation_due(state: TrainerState, every_epoch: bool) -> bool:
    """Whether an uninterrupted run validates the model of this step."""
    if not every_epoch:
        return state.global_step % state.eval_steps == 0 or state.global_step >= state.max_steps
    return (state.epoch or 0.0) % 1 == 0 or state.global_step >= state.max_steps


class ValidateThenSave(TrainerCallback):
    """Logs before every validation, and saves the checkpoint of an epoch after its validation.

    Otherwise a run killed during validation would skip that validation when it resumes.
    """

    def __init__(self):
        self.deferred = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        last = state.global_step >= state.max_steps
        if control.should_evaluate or (last and args.eval_strategy == "no"):
            control.should_log = True
        elif control.should_save and args.eval_strategy != "steps" and validation_due(state, True):
            control.should_save, self.deferred = False, True

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if control.should_evaluate:
            control.should_log = True
        if self.deferred:
            control.should_save, self.deferred = True, False


class SelectAgain(TrainerCallback):
    """Replaces the best model of a resumed run by the best remaining one, if its checkpoint is lost."""

    def __init__(self, step: int | None, metric: float | None):
        self.step, self.metric = step, metric

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        state.best_global_step, state.best_metric = self.step, self.metric
