"""Hugging Face's Trainer with our batches, optimizer and schedule, and atomic checkpoints."""

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from ..config.recipe import TrainingOptions
from ..core.errors import UserError
from ..core.files import remove, report_full_disk
from ..core.machine import return_freed_memory
from ..data.batching import Batches, BatchLoader, Collator, RowStore
from ..runs.names import PARTIAL
from ..runs.storage import publish, rotate
from .optimizer import build_optimizer, build_schedule

ADVICE = (
    "training stopped, the last good checkpoint is kept; try a lower training.lr_max or training.learning_rate, a"
    " longer training.warmup, or training.clip=1"
)


class EvolveTrainer(Trainer):
    """A Trainer with its own batches, optimizer, schedule, scoring and checkpoints.

    `score(model)` returns the validation metrics; every process calls it. `loss` is None for models that compute their
    own. `stepped` is whether training has started, that is, whether the checkpoint was loaded.
    """

    model: PreTrainedModel

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        *,
        options: TrainingOptions,
        train: RowStore,
        validation: Any,
        batches: Batches,
        tokenizer: PreTrainedTokenizerFast,
        collate: Collator,
        score: Any,
        loss: Any,
        callbacks: list[TrainerCallback],
    ):
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=train,
            eval_dataset=validation,
            processing_class=tokenizer,
            compute_loss_func=loss,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)
        self.options, self.batches, self.score = options, batches, score
        self.stepped = False
        self.collate = collate

    def get_train_dataloader(self) -> BatchLoader:
        assert isinstance(self.train_dataset, RowStore)
        return BatchLoader(self.train_dataset, self.batches, self.collate, self.options.workers)

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            self.optimizer = build_optimizer(self.model if model is None else model, self.options)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        if self.lr_scheduler is None:
            width = self.accelerator.unwrap_model(self.model).config.hidden_size
            chosen = self.optimizer if optimizer is None else optimizer
            assert chosen is not None
            self.lr_scheduler = build_schedule(chosen, self.options, num_training_steps, width)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        self.stepped = True
        loss = super().training_step(model, inputs, num_items_in_batch)
        if loss.device.type == "cpu" and not math.isfinite(loss.item()):
            raise UserError(f"the loss became {loss.item()} at step {self.state.global_step + 1}: {ADVICE}")
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if not math.isfinite(logs.get("loss", 0.0)):
            raise UserError(f"the loss became {logs['loss']} at step {self.state.global_step}: {ADVICE}")
        super().log(logs, start_time)

    def evaluate(self, *args, metric_key_prefix: str = "eval", **kwargs) -> dict[str, float]:
        model = self.accelerator.unwrap_model(self.model_wrapped, keep_torch_compile=False)
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in self.score(model).items()}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise UserError(f"{name} became {value} at step {self.state.global_step}: {ADVICE}")
        self._require_finite_weights()
        return_freed_memory()
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Save a model immediately if it is the best so far."""
        improved = super()._determine_best_metric(metrics, trial)
        if improved:
            self.control.should_save = True
        return improved

    def _require_finite_weights(self) -> None:
        """Checked by all processes before a model is selected or saved."""
        local = [p.to_local() if isinstance(p, DTensor) else p for p in self.model.parameters()]
        finite = torch.tensor(float(all(bool(p.isfinite().all()) for p in local)), device=self.args.device)
        if self.args.world_size > 1:
            distributed.all_reduce(finite, op=distributed.ReduceOp.MIN)
        if not finite:
            raise UserError(f"weights became infinite or NaN at step {self.state.global_step}: {ADVICE}")

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        self._require_finite_weights()
        final = Path(self.args.output_dir or ".")
        name = f"checkpoint-{self.state.global_step}"
        hint = "the last good checkpoint is kept, make room and run the same command again"
        try:
            with report_full_disk(final / name, hint):
                super()._save_checkpoint(model, trial)
                unlogged = {"loss": float(self._tr_loss), "logged": self._globalstep_last_logged}
                (final / PARTIAL / name / self._unlogged_file()).write_text(json.dumps(unlogged))
                self.accelerator.wait_for_everyone()
                if self.args.should_save:
                    publish(final / PARTIAL / name, final / name)
        finally:
            if self.args.should_save:
                remove(final / PARTIAL)
        if self.args.should_save:
            best = self.state.best_global_step
            rotate(final, max(self.options.keep, self.options.average), set() if best is None else {best})
        self.accelerator.wait_for_everyone()

    def _unlogged_file(self) -> str:
        """The file with the loss that a process has not logged yet."""
        return f"unlogged-{self.args.process_index}.json"

    def _load_rng_state(self, checkpoint: str | None) -> None:
        super()._load_rng_state(checkpoint)
        path = Path(checkpoint or ".") / self._unlogged_file()
        if checkpoint is not None and path.exists():
            unlogged = json.loads(path.read_text())
            self._tr_loss += unlogged["loss"]
            self._globalstep_last_logged = unlogged["logged"]

    def _get_output_dir(self, trial: Any) -> str:
        """The folder that a checkpoint is written to before it is renamed."""
        return os.path.join(str(self.args.output_dir), PARTIAL)

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        """Save weights, configuration and tokenizer, without the pickled arguments that the Trainer would add."""
        folder = str(output_dir or self.args.output_dir)
        os.makedirs(folder, exist_ok=True)
        model = self.accelerator.unwrap_model(self.model, keep_torch_compile=False)
        model.save_pretrained(folder, state_dict=state_dict)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)
