"""One training from its recipe to a scored model on disk; the same call after a stop resumes where it left off."""

import json
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
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
from ..data.detect import detected_task
from ..data.options import Split
from ..kinds.base import Kind, Score
from ..kinds.registry import decide, resolve
from ..kinds.session import Session
from ..kinds.start import give_weights, settle_start
from ..kinds.systems import unused
from ..runs.data_record import DataRecord, require_same_tokenizer
from ..runs.folder import load_errors, load_model, publish_model
from ..runs.lock import locked
from ..runs.metrics_file import MetricsFile
from ..runs.names import CHECKPOINTS, CURVES, DATA, RECIPE, REFIT, RESULTS, SELF_TRAINING, TENSORBOARD
from ..runs.plots import write_curves
from ..runs.results import Result, machine_facts, numbers, read_results
from ..runs.storage import check_manifest
from .callbacks.metrics import ClaimFolder, RecordMetrics
from .callbacks.progress import ShowProgress
from .callbacks.signals import StopOnSignal
from .callbacks.tensorboard import tensorboard
from .callbacks.validation import SelectAgain, ValidateThenSave
from .claim import require_own_folder
from .hf_arguments import check_packages, check_training, training_arguments
from .memory import parts_within
from .precision import choose_precision
from .processes import decided_by_main, join_processes
from .resolved import fill_in
from .resume import Resumption, find_resumption
from .self_training import check_self_training, guessed_texts, with_guesses
from .trainer import EvolveTrainer, sharded_modules

LARGEST_DEFAULT_BATCH = 4096


class Interrupted(Exception):
    """The run was asked to stop, and saved."""


def train(recipe: Recipe, command: str) -> Result:
    """Trains, selects on validation, reloads the model from disk, scores it, and writes the report."""
    recipe.data.task = detected_task(recipe.data)
    kind = resolve(recipe)
    tokenizer = settle_start(recipe)
    kind.check(recipe)
    check_training(recipe.training)
    check_packages(recipe.training)
    check_self_training(recipe, kind)
    asked = recipe.training.precision
    recipe.training.precision, reason = choose_precision(asked)
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
        data = load_data(recipe.data, tokenizer=tokenizer)
        kind.check(recipe, data)
        decided = decide(kind, recipe, data)
        if state.is_main_process:
            prepared = [] if data.folder is None else [f"prepared data: {data.folder}"]
            notes = [*kind.notes(recipe, data), *baseline_lines(kind.baseline(data))]
            say("\n".join([*data.report.lines(), *prepared, *notes]))
            if asked == "auto":
                say(f"training in {recipe.training.precision}: {reason}")
            ignored = [key for key in unused(recipe.model) if key not in decided]
            if ignored:
                say(f"note: {', '.join(ignored)}: not used by {recipe.model.system}")
        return Run(recipe, folder, data, state, stop, kind, decided).result(command)


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
    decided: Sequence[str] = ()
    validates: bool = True

    def __post_init__(self):
        self.training = self.recipe.training
        self.metric = str(self.training.select)
        device: Any = self.state.device
        self.facts = machine_facts(device) | {"precision": self.training.precision}
        if self.data.train is None or not len(self.data.train):
            raise UserError("there are no training rows")
        self.rows = RowStore(self.data.train)
        if self.data.validation is None:
            raise UserError("there are no validation rows to select a model by: set data.validation")

    def session(self, model: PreTrainedModel) -> Session:
        share: dict[str, Any] = {"process": self.state.process_index, "processes": self.state.num_processes}
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
        model = self.published(self.folder / CHECKPOINTS / f"checkpoint-{best_step}")
        again = self.score(model, "validation", final=False)
        self.check_reloaded(again.metrics, best_step, metrics)
        scored = again if self.kind.scored_alike else self.score(model, "validation", final=True)
        validation, data, taught = scored.metrics, self.data, None
        if self.training.self_training:
            model, validation, data, taught = self.self_train(model, validation)
        refit_seconds = None
        if self.training.refit:
            model, refit_seconds = self.refit(data)
        tested = None if self.data.test is None else self.score(model, "test", final=True)
        test = tested and tested.metrics
        for split, scores in (("validation", validation), ("test", test or {})):
            require_finite(scores, f"the selected model on {split}")
        rows = metrics.rows()
        yardstick = self.yardstick(validation, test)
        result = Result.gather(
            self.recipe,
            command,
            self.data,
            model,
            rows,
            best_step,
            validation,
            test,
            self.facts,
            refit_seconds,
            yardstick,
            self.kind.baseline(self.data),
        )
        if taught is not None:
            result = replace(result, self_training=taught, seconds=result.seconds + taught["seconds"])
        if self.state.is_main_process:
            for note in (tested or scored).notes():
                say(note)
            write_curves(self.folder / CURVES, rows, f"{result.task}, {result.system}")
            write_atomically(self.folder / RESULTS, json.dumps(asdict(result), indent=1) + "\n")
        return result

    def published(self, checkpoint: Path) -> PreTrainedModel:
        """The model of a checkpoint, copied to the top of the run and read back from there."""
        if self.state.is_main_process:
            publish_model(checkpoint, self.folder)
            parts = {"validation": self.data.validation, "test": self.data.test}
            sizes = [f"{len(rows):,} rows of {name}" for name, rows in parts.items() if rows is not None]
            say(f"scoring the model of step {checkpoint.name.rpartition('-')[2]} on {' and '.join(sizes)}")
        self.state.wait_for_everyone()
        model: PreTrainedModel = load_model(self.folder, self.kind.auto_class)
        return model.to(self.state.device)  # pyright: ignore[reportArgumentType]

    def self_train(
        self, model: PreTrainedModel, validation: dict[str, float]
    ) -> tuple[PreTrainedModel, dict[str, float], TextData, dict[str, Any]]:
        """Trains again with texts that the model has labelled; returns the better model, its score and its data."""
        alone = replace(self.session(model), process=0, processes=1)
        guessed = decided_by_main(self.state, lambda: guessed_texts(self.kind, alone, self.recipe, self.data))
        if not guessed[0]:
            say("self-training: there is no unlabelled text that the model is sure of")
            return model, validation, self.data, {"texts": 0, "used": False, "seconds": 0.0}
        if self.state.is_main_process:
            say(f"self-training: training again with {len(guessed[0]):,} texts that the model has labelled")
        data = with_guesses(self.data, *guessed)
        again = Run(self.recipe, self.folder / SELF_TRAINING, data, self.state, self.stop, self.kind)
        again.folder.mkdir(exist_ok=True)
        checkpoint = again.folder / CHECKPOINTS / f"checkpoint-{again.fit(MetricsFile(again.folder))}"
        other = load_model(checkpoint, self.kind.auto_class).to(self.state.device)  # pyright: ignore[reportArgumentType]
        scores = self.score(other, "validation", final=False).metrics
        gain = (scores[self.metric] - validation[self.metric]) * (1 if self.kind.metrics[self.metric] else -1)
        seconds = MetricsFile(again.folder).rows()[-1]["seconds"]
        facts = {"texts": len(guessed[0]), "used": gain > 0, "before": validation, "after": scores, "seconds": seconds}
        if self.state.is_main_process:
            compared = f"{self.metric} {validation[self.metric]:.4f} before, {scores[self.metric]:.4f} after"
            say(f"self-training: {compared}; the {'second' if gain > 0 else 'first'} model is kept")
        if gain <= 0:
            return model, validation, self.data, facts
        return self.published(checkpoint), scores, data, facts

    def refit(self, data: TextData) -> tuple[PreTrainedModel, float]:
        """Trains again on all rows, as long as before; returns the model and the seconds that took."""
        if self.state.is_main_process:
            say("training again on all rows, those of validation too (training.refit)")
        options = replace(self.training, patience=0, eval_steps=0)
        recipe = replace(self.recipe, training=options)
        again = Run(recipe, self.folder / REFIT, joined(data), self.state, self.stop, self.kind, validates=False)
        again.folder.mkdir(exist_ok=True)
        metrics = MetricsFile(again.folder)
        step = again.fit(metrics)
        seconds = metrics.rows()[-1]["seconds"] if metrics.rows() else 0.0
        return self.published(again.folder / CHECKPOINTS / f"checkpoint-{step}"), seconds

    def yardstick(self, validation: dict[str, float], test: dict[str, float] | None) -> dict[str, Any] | None:
        """What a simple method makes of the same rows, shown and recorded by the main process."""
        if not self.training.yardstick or not self.state.is_main_process:
            return None
        try:
            found = self.kind.yardstick(self.recipe, self.data, bool(self.training.refit))
        except UserError as error:
            say(f"note: {error}")
            return None
        if found is None:
            return None
        say("\n".join(found.lines(validation, test)))
        return found.as_dict()

    def fit(self, metrics: MetricsFile) -> int:
        """Trains to the end; returns the step that validated best, or the last one if nothing is validated."""
        set_seed(self.training.seed)
        model = self.kind.build(self.recipe, self.data)
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
            require_same_tokenizer(self.folder, self.data)
        if resumed.finished is not None:
            return resumed.finished
        if resumed.checkpoint is None:
            self.kind.start(model, self.recipe, self.data)
            if self.recipe.model.start is not None:
                give_weights(Path(self.recipe.model.start), model)
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
            loss=self.kind.loss(self.recipe, self.data),
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
        if not self.validates:
            return trainer.state.global_step
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
            if self.validates:
                record = DataRecord.of(self.recipe.data, self.data, self.filled).as_json()
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
            model.config.architectures = [type(model).__name__]
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


def baseline_lines(baseline: dict[str, dict[str, float]]) -> list[str]:
    """The scores of the best answer that ignores the texts, before training."""
    return [
        f"the best answer that ignores the texts scores on {split}: {numbers(found)}"
        for split, found in baseline.items()
    ]


def joined(data: TextData) -> TextData:
    """The data with the rows of validation among those of train."""
    from datasets import concatenate_datasets

    originals = {**data.originals}
    if "train" in originals:
        originals["train"] = [*originals["train"], *originals["validation"]]
    assert data.train is not None
    assert data.validation is not None
    return replace(data, train=concatenate_datasets([data.train, data.validation]), originals=originals)


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
