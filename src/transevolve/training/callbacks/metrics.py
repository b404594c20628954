"""Writes `recipe.yaml` and `data.json`, which mark the folder as used, and `metrics.jsonl`."""

import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ...core.files import write_atomically
from ...runs.metrics_file import MetricsFile

LOGGED = ("loss", "learning_rate", "grad_norm")


class ClaimFolder(TrainerCallback):
    """Writes files such as the recipe after the first step, so that a run that fails earlier can be corrected."""

    def __init__(self, files: dict[Path, str]):
        self.files = files
        self.claimed = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        if not self.claimed:
            for path, content in self.files.items():
                write_atomically(path, content)
            self.claimed = True


class RecordMetrics(TrainerCallback):
    """One line of `metrics.jsonl` per log and per validation; in the main process only."""

    def __init__(self, metrics: MetricsFile):
        self.metrics = metrics

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        self.metrics.drop_after(state.global_step)
        rows = self.metrics.rows()
        self.seconds_before = rows[-1]["seconds"] if rows else 0.0
        self.started = self.last_time = time.perf_counter()
        self.last_tokens = state.num_input_tokens_seen

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        logs: dict[str, float] = kwargs.get("logs") or {}
        if "train_loss" in logs:
            return
        now = time.perf_counter()
        row: dict[str, Any] = {"step": state.global_step, "epoch": round(state.epoch or 0.0, 4)}
        row["seconds"] = round(self.seconds_before + now - self.started, 3)
        row |= {name: value for name, value in logs.items() if name in LOGGED or name.startswith("eval_")}
        if "loss" in logs:
            row["tokens"] = state.num_input_tokens_seen
            tokens, seconds = state.num_input_tokens_seen - self.last_tokens, now - self.last_time
            row["tokens_per_second"] = round(tokens / max(seconds, 1e-9), 1)
            self.last_tokens, self.last_time = state.num_input_tokens_seen, now
        self.metrics.append(row)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any):
        """Exclude validation time from tokens per second."""
        self.last_time = time.perf_counter()
