"""Progress for whoever watches: a bar on a terminal, now and then a line elsewhere."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ...core.messages import say


class ShowProgress(TrainerCallback):
    """In the main process only."""

    def __init__(self, title: str, seconds_between_lines: float = 30.0):
        self.title, self.seconds_between_lines = title, seconds_between_lines
        self.bar: Progress | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.started = self.shown = time.perf_counter()
        self.first_step, self.first_tokens = state.global_step, state.num_input_tokens_seen
        self.loss: float | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[status]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.line = self.bar.add_task(
                escape(self.title), total=state.max_steps, completed=state.global_step, status=""
            )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self.bar is not None:
            self.bar.update(self.line, completed=state.global_step, status=self._status(state))
        elif time.perf_counter() - self.shown > self.seconds_between_lines:
            self.shown = time.perf_counter()
            done = max(state.global_step - self.first_step, 1)
            left = clock((self.shown - self.started) / done * (state.max_steps - state.global_step))
            say(f"{self.title}: step {state.global_step:,}/{state.max_steps:,} {self._status(state)}, {left} left")

    def _status(self, state: TrainerState) -> str:
        seconds = time.perf_counter() - self.started
        rate = (state.num_input_tokens_seen - self.first_tokens) / max(seconds, 1e-9)
        loss = "" if self.loss is None else f"loss {self.loss:.4f}, "
        return f"{loss}{rate:,.0f} tokens/s"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        self.loss = (logs or {}).get("loss", self.loss)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ):
        numbers = [f"{name.removeprefix('eval_')} {value:.4f}" for name, value in (metrics or {}).items()]
        text = f"validation at step {state.global_step:,} (epoch {state.epoch or 0:.2f}): {', '.join(numbers)}"
        if self.bar is not None:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            say(text)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.close()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
