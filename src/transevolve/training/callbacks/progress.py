"""Shows progress: a bar in terminals and notebooks, otherwise occasional lines."""

import time
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ...core.progress import Bar


class ShowProgress(TrainerCallback):
    """In the main process only."""

    def __init__(self, title: str):
        self.title = title
        self.bar: Bar | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.started, self.first_tokens = time.perf_counter(), state.num_input_tokens_seen
        self.loss: float | None = None
        self.bar = Bar(self.title, state.max_steps, "steps", state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if self.bar is not None:
            self.bar.status = self._status(state)
            self.bar.update(state.global_step - self.bar.done)

    def _status(self, state: TrainerState) -> str:
        seconds = time.perf_counter() - self.started
        rate = (state.num_input_tokens_seen - self.first_tokens) / max(seconds, 1e-9)
        loss = "" if self.loss is None else f"loss {self.loss:.4f}, "
        return f"{loss}{rate:,.0f} tokens/s"

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.loss = (kwargs.get("logs") or {}).get("loss", self.loss)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        metrics: dict[str, float] = kwargs.get("metrics") or {}
        numbers = [f"{name.removeprefix('eval_')} {value:.4f}" for name, value in metrics.items()]
        text = f"validation at step {state.global_step:,} (epoch {state.epoch or 0:.2f}): {', '.join(numbers)}"
        if self.bar is not None:
            self.bar.say(text)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.close()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
