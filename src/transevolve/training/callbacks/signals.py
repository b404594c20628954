"""Stops training on SIGINT (Ctrl-C) or SIGTERM (torchrun, batch systems)."""

import signal
import threading
from typing import Any, Self

import torch
from torch import distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ...core.messages import say

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(TrainerCallback):
    """While training, the first signal saves a checkpoint and stops after the step; a second one stops immediately.

    Use it as a context manager. Before and after training, a signal stops immediately.
    """

    def __init__(self):
        self.asked = self.training = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.training = True

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.training = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self._anyone_asked(args, state):
            control.should_save = control.should_training_stop = True

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Skip a validation that an uninterrupted run would not make, so that it cannot select the model."""
        if self.asked and (state.epoch or 0.0) % 1 and state.global_step < state.max_steps:
            control.should_evaluate = control.should_save = False

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked or not self.training:
            raise KeyboardInterrupt
        self.asked = True
        say("stopping after this step; a second signal stops immediately, without saving")

    def _anyone_asked(self, args: TrainingArguments, state: TrainerState) -> bool:
        """Synchronize at logging steps, so that all processes stop at the same step."""
        if args.world_size == 1:
            return self.asked
        if state.global_step % args.logging_steps:
            return False
        flag = torch.tensor(float(self.asked), device=args.device)
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        self.asked = bool(flag)
        return self.asked
