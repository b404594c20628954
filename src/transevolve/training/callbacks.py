"""What happens around the steps: a progress bar, a record of metrics, and stopping when asked to."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..runs.metrics_file import MetricsFile


def tensorboard(folder: Path) -> TrainerCallback:
    """Hugging Face's own callback, into the run; steps that a killed run wrote after its checkpoint are dropped."""
    from torch.utils.tensorboard import SummaryWriter
    from transformers.integrations.integration_utils import TensorBoardCallback

    class Writer(TensorBoardCallback):
        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
        ) -> None:
            self.tb_writer = SummaryWriter(str(folder), purge_step=state.global_step + 1)
            super().on_train_begin(args, state, control, **kwargs)

    return Writer()


class Recorder(TrainerCallback):
    """Writes `metrics.jsonl` and shows progress; only in the process that writes."""

    def __init__(self, metrics: MetricsFile, title: str, quiet_seconds: float = 30.0):
        self.metrics, self.title, self.quiet_seconds = metrics, title, quiet_seconds
        self.bar: Progress | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        self.metrics.forget_after(state.global_step)
        rows = self.metrics.rows()
        self.seconds_before = rows[-1]["seconds"] if rows else 0.0
        self.started = self.shown = time.perf_counter()
        self.tokens_before = self.last_tokens = state.num_input_tokens_seen
        self.last_time = self.started
        self.loss: float | None = None
        if sys.stderr.isatty():
            columns = (MofNCompleteColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                *columns,
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.bar.start()
            self.line = self.bar.add_task(self.title, total=state.max_steps, completed=state.global_step, told="")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        if self.bar is not None:
            self.bar.update(self.line, completed=state.global_step, told=self._told(state))
        elif time.perf_counter() - self.shown > self.quiet_seconds:
            self.shown = time.perf_counter()
            done = state.global_step - self.first_step if hasattr(self, "first_step") else state.global_step
            left = (self.shown - self.started) / max(done, 1) * (state.max_steps - state.global_step)
            say(f"{self.title}: step {state.global_step:,}/{state.max_steps:,} {self._told(state)}, {clock(left)} left")

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        if not hasattr(self, "first_step"):
            self.first_step = state.global_step

    def _told(self, state: TrainerState) -> str:
        seconds = time.perf_counter() - self.started
        rate = (state.num_input_tokens_seen - self.tokens_before) / max(seconds, 1e-9)
        loss = "" if self.loss is None else f"loss {self.loss:.4f}, "
        return f"{loss}{rate:,.0f} tokens/s"

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs=None, **kwargs):
        logs = logs or {}
        self.loss = logs.get("loss", self.loss)
        if "train_loss" in logs:
            return
        now = time.perf_counter()
        row = {"step": state.global_step, "epoch": round(state.epoch or 0.0, 4)}
        row["seconds"] = round(self.seconds_before + now - self.started, 3)
        row |= {name: value for name, value in logs.items() if name in ("loss", "learning_rate", "grad_norm")}
        row |= {name: value for name, value in logs.items() if name.startswith("eval_")}
        if "loss" in logs:
            row["tokens"] = state.num_input_tokens_seen
            row["tokens_per_second"] = round(
                (state.num_input_tokens_seen - self.last_tokens) / (now - self.last_time), 1
            )
            self.last_tokens, self.last_time = state.num_input_tokens_seen, now
        self.metrics.append(row)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics=None, **kwargs
    ):
        numbers = {name.removeprefix("eval_"): value for name, value in (metrics or {}).items()}
        told = ", ".join(f"{name} {value:.4f}" for name, value in numbers.items())
        text = f"validation at step {state.global_step:,} (epoch {state.epoch or 0:.2f}): {told}"
        if self.bar is not None:
            self.bar.console.print(text, highlight=False)
        else:
            say(text)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        self.close()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


class StopWhenAsked(TrainerCallback):
    """Ctrl-C or a polite kill saves a checkpoint and stops after the step; a second one stops at once."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self):
        self.asked = False

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        self.before = {number: signal.signal(number, self._ask) for number in self.SIGNALS}

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        if self._anyone_asked(args, state):
            control.should_save = control.should_training_stop = True

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        """A validation that an undisturbed run would not make must not select the model."""
        if self.asked and (state.epoch or 0.0) % 1:
            control.should_evaluate = control.should_save = False

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs):
        self.release()

    def release(self) -> None:
        for number, handler in getattr(self, "before", {}).items():
            signal.signal(number, handler)
        self.before = {}

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            self.release()
            raise KeyboardInterrupt
        self.asked = True
        say("stopping after this step; once more stops at once, without saving")

    def _anyone_asked(self, args: TrainingArguments, state: TrainerState) -> bool:
        """All processes must stop at the same step; they compare notes where they log."""
        if args.world_size == 1:
            return self.asked
        if state.global_step % args.logging_steps:
            return False
        flag = torch.tensor(float(self.asked), device=args.device)
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        self.asked = bool(flag)
        return self.asked


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def say(text: str) -> None:
    """A line for whoever watches; standard output is for results."""
    print(text, file=sys.stderr, flush=True)
