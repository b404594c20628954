"""One training in a folder: from a new model, or the last checkpoint, to the last step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import EarlyStoppingCallback, PreTrainedModel, set_seed

from ..config.files import recipe_yaml
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.machine import return_freed_memory
from ..core.messages import say
from ..core.private import sharded_modules
from ..data import TextData
from ..data.batching import Batches, RowStore, default_tokens
from ..data.options import Split
from ..kinds.base import Kind, Score
from ..kinds.session import Session
from ..kinds.start import copy_weights
from ..runs.averaging import write_average
from ..runs.data_record import DataRecord, require_same_prepared
from ..runs.folder import load_errors, load_model
from ..runs.metrics_file import MetricsFile
from ..runs.names import AVERAGE, CHECKPOINTS, DATA, RECIPE, TENSORBOARD
from ..runs.results import machine_facts
from ..runs.storage import checkpoints
from .callbacks.metrics import ClaimFolder, RecordMetrics
from .callbacks.progress import ShowProgress
from .callbacks.signals import StopOnSignal
from .callbacks.tensorboard import tensorboard
from .callbacks.validation import SelectAgain, ValidateThenSave
from .hf_arguments import training_arguments
from .memory import parts_within
from .processes import decided_by_main
from .resolved import fill_in
from .resume import Resumption, find_resumption
from .trainer import EvolveTrainer


class Interrupted(Exception):
    """The run was stopped by a signal, after saving a checkpoint."""


@dataclass
class Fit:
    """The recipe, data and state of one training.

    Attributes:
        validates: Whether the model is validated during training.
        chosen: Fields of the model's configuration that another training chose on validation.
    """

    recipe: Recipe
    folder: Path
    data: TextData
    state: PartialState
    stop: StopOnSignal
    kind: Kind
    decided: Sequence[str] = ()
    validates: bool = True
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        self.training = self.recipe.training
        self.metric = str(self.training.select)
        self.log = MetricsFile(self.folder)
        device: Any = self.state.device
        self.facts = machine_facts(device) | {"precision": self.training.precision}
        if self.data.train is None or not len(self.data.train):
            raise UserError("there are no training rows")
        self.rows = RowStore(self.data.train)
        if self.data.validation is None:
            raise UserError("there are no validation rows, which are needed to select the model: set data.validation")

    def session(self, model: PreTrainedModel) -> Session:
        share: dict[str, Any] = {"process": self.state.process_index, "processes": self.state.num_processes}
        tokens = self.training.eval_tokens
        device: Any = self.state.device
        return Session(model, self.data.tokenizer, self.recipe, device, tokens, **share)

    def score(self, model: PreTrainedModel, split: Split, final: bool) -> Score:
        rows = self.data.split(split)
        assert rows is not None
        return self.kind.score(self.session(model), rows, final=final)

    def checkpoint(self, step: int) -> Path:
        return self.folder / CHECKPOINTS / f"checkpoint-{step}"

    def loaded(self, folder: Path) -> PreTrainedModel:
        """The model of a checkpoint or run folder, on the device of the training."""
        model: PreTrainedModel = load_model(folder, self.kind.auto_class)
        return model.to(self.state.device)  # pyright: ignore[reportArgumentType]

    def fit(self) -> int:
        """Train to the end; returns the step with the best validation score, or the last step without validation."""
        set_seed(self.training.seed)
        model = self.kind.build(self.recipe, self.data)
        model.config.update(dict(self.chosen))
        batches = self.batches(model)
        self.filled = [*self.decided, *fill_in(self.recipe, self.data, model, batches)]
        checkpoints = self.folder / CHECKPOINTS
        better = self.kind.metrics[self.metric]
        arguments = training_arguments(
            self.training, checkpoints, batches.parts, self.metric, better, sharded_modules(model), self.validates
        )
        resumed = decided_by_main(
            self.state,
            lambda: find_resumption(checkpoints, self.training, self.metric, better, self.validates),
        )
        if resumed.checkpoint is not None:
            require_same_prepared(self.folder, self.data)
        if resumed.finished is not None:
            return resumed.finished
        if resumed.checkpoint is None:
            self.kind.start(model, self.recipe, self.data)
            if self.recipe.model.start is not None:
                copy_weights(Path(self.recipe.model.start), model)
        callbacks = self.callbacks(resumed)
        trainer = EvolveTrainer(
            model,
            arguments,
            options=self.training,
            train=self.rows,
            validation=self.data.validation,
            batches=batches,
            tokenizer=self.data.tokenizer,
            collate=self.kind.collator(self.session(model)),
            score=lambda model: self.score(model, "validation", final=False).metrics,
            loss=self.kind.loss(self.recipe, self.data),
            callbacks=callbacks,
        )
        return_freed_memory()
        try:
            trainer.train(resume_from_checkpoint=None if resumed.checkpoint is None else str(resumed.checkpoint))
        except Exception as error:
            if resumed.checkpoint is None or trainer.stepped:
                raise
            with load_errors(resumed.checkpoint, "; remove it, and the same command resumes from the one before"):
                raise error
        finally:
            for callback in callbacks:
                if isinstance(callback, ShowProgress):
                    callback.close()
        if self.stop.asked and trainer.state.global_step < trainer.state.max_steps:
            raise Interrupted(f"saved at step {trainer.state.global_step:,}; the same command resumes from there")
        if not self.validates:
            return trainer.state.global_step
        if trainer.state.best_global_step is None:
            raise UserError(f"no model was validated in {trainer.state.global_step:,} steps: lower training.eval_steps")
        return trainer.state.best_global_step

    def callbacks(self, resumed: Resumption) -> list[Any]:
        """The callbacks in calling order: those that change the control flow come before those that record."""
        found: list[Any] = [self.stop, ValidateThenSave()]
        if resumed.selected is not None:
            found.append(SelectAgain(*resumed.selected))
        if self.training.patience:
            found.append(EarlyStoppingCallback(self.training.patience))
        if self.state.is_main_process:
            if self.validates:
                record = DataRecord.of(self.recipe.data, self.data, self.filled).as_json()
                found.append(ClaimFolder({self.folder / RECIPE: recipe_yaml(self.recipe), self.folder / DATA: record}))
            found += [RecordMetrics(self.log), ShowProgress(self.folder.name)]
            if self.training.tensorboard:
                found.append(tensorboard(self.folder / TENSORBOARD))
        return found

    def batches(self, model: PreTrainedModel) -> Batches:
        options = self.training
        lengths = self.rows.lengths
        tokens = options.batch_tokens
        if tokens is None and options.batch_size is None:
            tokens = default_tokens(lengths)
        batches = Batches(
            lengths,
            rows=options.batch_size,
            tokens=tokens,
            parts=options.accumulation or 1,
            process=self.state.process_index,
            processes=self.state.num_processes,
            seed=options.seed,
        )
        budget = options.memory
        if budget is not None:
            batches.parts = decided_by_main(self.state, lambda: parts_within(budget, self.kind, model.config, batches))
            if self.state.is_main_process:
                say(f"each batch is processed in {batches.parts} parts to stay within {budget}")
        return batches

    def average(self) -> tuple[list[int], Path]:
        """The steps of the last checkpoints, and a folder with the mean of their weights."""
        found, folder = checkpoints(self.folder / CHECKPOINTS)[-self.training.average :], self.folder / AVERAGE
        if self.state.is_main_process and not folder.exists():
            write_average([path for _, path in found], folder)
        self.state.wait_for_everyone()
        return [step for step, _ in found], folder
