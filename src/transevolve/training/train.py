"""One training from its recipe to a scored model on disk; the same call after a stop resumes where it left off."""

import json
import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from transformers import EarlyStoppingCallback, PreTrainedModel, set_seed

from ..config.files import recipe_yaml
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import clear_when_full, write_atomically
from ..core.messages import say
from ..data import TextData, load_data
from ..data.batching import Batches, RowStore
from ..data.options import Split
from ..kinds.base import Kind, Score
from ..kinds.registry import resolve
from ..kinds.session import Session
from ..kinds.systems import unused
from ..runs.data_record import DataRecord, require_same_tokenizer
from ..runs.folder import load_errors, load_model, publish_model
from ..runs.lock import locked
from ..runs.metrics_file import MetricsFile
from ..runs.names import CHECKPOINTS, CURVES, DATA, RECIPE, RESULTS, TENSORBOARD
from ..runs.plots import write_curves
from ..runs.results import Result, machine_facts, read_results
from ..runs.storage import check_manifest
from .callbacks.metrics import ClaimFolder, RecordMetrics
from .callbacks.progress import ShowProgress
from .callbacks.signals import StopOnSignal
from .callbacks.tensorboard import tensorboard
from .callbacks.validation import SelectAgain, ValidateThenSave
from .claim import require_own_folder
from .hf_arguments import check_packages, check_training, training_arguments
from .memory import parts_within
from .processes import decided_by_main, join_processes
from .resume import Resumption, find_resumption
from .trainer import EvolveTrainer, sharded_modules

LARGEST_DEFAULT_BATCH = 4096


class Interrupted(Exception):
    """The run was asked to stop, and saved."""


def train(recipe: Recipe, command: str) -> Result:
    """Trains, selects on validation, reloads the model from disk, scores it, and writes the report."""
    kind = resolve(recipe)
    check_training(recipe.training)
    check_packages(recipe.training)
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    folder = Path(recipe.output or default_output(recipe))
    recipe.output = str(folder)
    state = join_processes()
    with ExitStack() as held, StopOnSignal() as stop, clear_when_full(folder):
        decided_by_main(state, lambda: _take(folder, recipe, held))
        finished = read_result(folder)
        if finished is not None:
            if state.is_main_process:
                say(f"{folder} is finished already; these are its results")
            return finished
        data = load_data(recipe.data)
        for role, name in data.report.columns.items():
            setattr(recipe.data, role, name)
        if state.is_main_process:
            prepared = [] if data.folder is None else [f"prepared data: {data.folder}"]
            say("\n".join([*data.report.lines(), *prepared, *kind.notes(recipe, data)]))
            ignored = unused(recipe.model)
            if ignored:
                say(f"note: {', '.join(ignored)}: not used by {recipe.model.system}")
        return Run(recipe, folder, data, state, stop, kind).result(command)


def _take(folder: Path, recipe: Recipe, held: ExitStack) -> None:
    """Locks the folder and makes sure that it may be trained in."""
    ours = held.enter_context(locked(folder))
    require_own_folder(folder, recipe, ours)


@dataclass
class Run:
    """What one training has at hand."""

    recipe: Recipe
    folder: Path
    data: TextData
    state: PartialState
    stop: StopOnSignal
    kind: Kind

    def __post_init__(self):
        self.training = self.recipe.training
        self.metric = str(self.training.select)
        self.facts = machine_facts(self.state.device)  # pyright: ignore[reportArgumentType]
        if self.data.train is None or not len(self.data.train):
            raise UserError("there are no training rows")
        self.rows = RowStore(self.data.train)
        if self.data.validation is None:
            raise UserError("there are no validation rows to select a model by: set data.validation")

    def session(self, model: PreTrainedModel) -> Session:
        share = {"process": self.state.process_index, "processes": self.state.num_processes}
        tokens = self.training.eval_tokens
        device: Any = self.state.device
        return Session(model, self.data.tokenizer, self.recipe, device, tokens, **share)

    def score(self, model: PreTrainedModel, split: Split, final: bool) -> Score:
        rows = self.data.split(split)
        assert rows is not None
        return self.kind.score(self.session(model), rows, final=final)

    def result(self, command: str) -> Result:
        metrics = MetricsFile(self.folder)
        best_step = self.fit(metrics)
        checkpoint = self.folder / CHECKPOINTS / f"checkpoint-{best_step}"
        if self.state.is_main_process:
            publish_model(checkpoint, self.folder)
            parts = {"validation": self.data.validation, "test": self.data.test}
            sizes = [f"{len(rows):,} rows of {name}" for name, rows in parts.items() if rows is not None]
            say(f"scoring the model of step {best_step:,} on {' and '.join(sizes)}")
        self.state.wait_for_everyone()
        model: PreTrainedModel = load_model(self.folder, self.kind.auto_class)
        model.to(self.state.device)  # pyright: ignore[reportArgumentType]
        again = self.score(model, "validation", final=False).metrics
        self.check_reloaded(again, best_step, metrics)
        validation = again if self.kind.scored_alike else self.score(model, "validation", final=True).metrics
        test = None if self.data.test is None else self.score(model, "test", final=True).metrics
        for split, scores in (("validation", validation), ("test", test or {})):
            require_finite(scores, f"the selected model on {split}")
        rows = metrics.rows()
        result = Result.gather(self.recipe, command, self.data, model, rows, best_step, validation, test, self.facts)
        if self.state.is_main_process:
            write_curves(self.folder / CURVES, rows, f"{result.task}, {result.system}")
            write_atomically(self.folder / RESULTS, json.dumps(asdict(result), indent=1) + "\n")
        return result

    def fit(self, metrics: MetricsFile) -> int:
        """Trains to the end; returns the step that validated best."""
        set_seed(self.training.seed)
        model = self.kind.build(self.recipe, self.data)
        batches = self.batches(model)
        checkpoints = self.folder / CHECKPOINTS
        better = self.kind.metrics[self.metric]
        arguments = training_arguments(
            self.training, checkpoints, batches.parts, self.metric, better, sharded_modules(model)
        )
        resumed = decided_by_main(
            self.state,
            lambda: find_resumption(checkpoints, self.training, self.metric, better),
        )
        if resumed.checkpoint is not None:
            require_same_tokenizer(self.folder, self.data)
        if resumed.finished is not None:
            return resumed.finished
        callbacks = self.callbacks(metrics, resumed)
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
            loss=self.kind.loss(self.recipe),
            callbacks=callbacks,
        )
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
        if trainer.state.best_global_step is None:
            raise UserError(f"no model was validated in {trainer.state.global_step:,} steps: lower training.eval_steps")
        return trainer.state.best_global_step

    def callbacks(self, metrics: MetricsFile, resumed: Resumption) -> list[Any]:
        """In the order in which they are called: what decides comes before what records."""
        found: list[Any] = [self.stop, ValidateThenSave()]
        if resumed.selected is not None:
            found.append(SelectAgain(*resumed.selected))
        if self.training.patience:
            found.append(EarlyStoppingCallback(self.training.patience))
        if self.state.is_main_process:
            record = DataRecord.of(self.recipe.data, self.data).as_json()
            found.append(ClaimFolder({self.folder / RECIPE: recipe_yaml(self.recipe), self.folder / DATA: record}))
            found += [RecordMetrics(metrics), ShowProgress(self.folder.name)]
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
            batches.parts = decided_by_main(self.state, lambda: parts_within(budget, model.config, batches))
            if self.state.is_main_process:
                say(f"each batch is processed in {batches.parts} parts to stay within {budget}")
        return batches

    def check_reloaded(self, validation: dict[str, float], best_step: int, metrics: MetricsFile) -> None:
        """A model read back from disk must score as it did when it was selected."""
        recorded = [row for row in metrics.rows() if row["step"] == best_step and f"eval_{self.metric}" in row]
        if not recorded:
            return
        before, now = recorded[-1][f"eval_{self.metric}"], validation[self.metric]
        if not abs(before - now) <= (1e-6 if self.training.precision == "fp32" else 5e-3):
            raise UserError(
                f"the model of step {best_step} scored {before:.6f} in training, but {now:.6f} read back from"
                f" {self.folder}: what was saved is not what was trained"
            )


def require_finite(scores: dict[str, float], what: str) -> None:
    for name, value in scores.items():
        if not math.isfinite(value):
            raise UserError(f"{what} has a {name} of {value}: it is of no use; lower the learning rate and train again")


def default_tokens(lengths: np.ndarray) -> int:
    """A batch small enough that an epoch has a hundred steps, but of at least eight rows."""
    return min(LARGEST_DEFAULT_BATCH, max(int(lengths.sum(dtype=np.int64)) // 100, 8 * int(lengths.max())))


def default_output(recipe: Recipe) -> str:
    model = recipe.model
    name = (model.variant or "fullFF-1") if model.system == "transevolve" else model.system
    return f"runs/{recipe.data.task}-{name}-{recipe.training.seed}"


def read_result(folder: Path) -> Result | None:
    """The result of a finished run; None if it is not finished, or if its model or its results are damaged."""
    try:
        check_manifest(folder)
        return read_results(folder / RESULTS)
    except (UserError, TypeError):
        return None
