"""One training from its recipe to a scored model on disk; given again after a stop, it goes on where it was."""

import json
import shutil
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import EarlyStoppingCallback, PreTrainedModel, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from ..config.files import read_settings, recipe_yaml
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import write_atomically
from ..core.machine import default_device
from ..data import TextData, load_data
from ..data.batching import Batches, RowStore
from ..data.options import Split
from ..kinds.base import Kind, Score
from ..kinds.registry import resolve
from ..kinds.session import Session
from ..kinds.systems import unused
from ..runs.data_record import DATA, DataRecord, data_changes, require_same_data
from ..runs.folder import CHECKPOINTS, RECIPE, RESULTS, load_errors, load_model, publish_model
from ..runs.lock import locked
from ..runs.metrics_file import MetricsFile
from ..runs.plots import CURVES, write_curves
from ..runs.results import Result, machine_facts, read_results
from ..runs.storage import PARTIAL, check_manifest, newest_whole
from .callbacks import Recorder, StopWhenAsked, say, tensorboard
from .hf_arguments import check_packages, check_training, training_arguments
from .memory import parts_within
from .trainer import EvolveTrainer

INCONSEQUENTIAL = {"output", "training.keep", "training.log_steps", "training.workers", "training.threads"}
INCONSEQUENTIAL |= {"training.tensorboard", "data.cache"}
RECOGNISED = {"data.text", "data.label"}
CHANGED_DATA = "restore the file to resume, or train again into another --output"
TENSORBOARD = "tensorboard"
LARGEST_DEFAULT_BATCH = 4096
REMOVE_IT = "; remove it, and the same command goes on from the one before"


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
    state = PartialState(cpu=default_device().type == "cpu")
    with ExitStack() as held:
        if state.is_main_process:
            held.enter_context(locked(folder))
            refuse_another(folder, recipe)
        finished = read_result(folder)
        if finished is not None:
            if state.is_main_process:
                changed = data_changes(folder, recipe.data)
                since = "" if changed is None else f" (note: {changed} changed since then; they are of the former data)"
                say(f"{folder} is finished already; these are its results{since}")
            return finished
        require_same_data(folder, recipe.data, CHANGED_DATA)
        with state.main_process_first():
            data = load_data(recipe.data)
        for role, name in data.report.columns.items():
            setattr(recipe.data, role, name)
        if state.is_main_process:
            say("\n".join([*data.report.lines(), *kind.notes(recipe, data)]))
            ignored = unused(recipe.model)
            if ignored:
                say(f"note: {', '.join(ignored)}: not used by {recipe.model.system}")
        return Run(recipe, folder, data, state, kind).result(command)


@dataclass
class Run:
    """What one training has at hand."""

    recipe: Recipe
    folder: Path
    data: TextData
    state: PartialState
    kind: Kind

    def __post_init__(self):
        self.training = self.recipe.training
        self.metric = str(self.training.select)
        self.facts = machine_facts(self.state.device)
        if self.data.train is None or not len(self.data.train):
            raise UserError("there are no training rows")
        if self.data.validation is None:
            raise UserError("there are no validation rows to select a model by: set data.validation")

    def session(self, model: PreTrainedModel) -> Session:
        share = {"process": self.state.process_index, "processes": self.state.num_processes}
        tokens = self.training.eval_tokens
        return Session(model, self.data.tokenizer, self.recipe, self.state.device, tokens, **share)

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
        model: PreTrainedModel = load_model(self.folder, self.kind.auto_class).to(self.state.device)
        again = self.score(model, "validation", final=False).metrics
        self.check_reloaded(again, best_step, metrics)
        validation = again if self.kind.scored_alike else self.score(model, "validation", final=True).metrics
        test = None if self.data.test is None else self.score(model, "test", final=True).metrics
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
        if self.state.is_main_process:
            write_atomically(self.folder / RECIPE, recipe_yaml(self.recipe))
            if not (self.folder / DATA).exists():
                DataRecord.of(self.recipe.data).write(self.folder)
        asked = StopWhenAsked()
        callbacks: list[Any] = [asked]
        if self.state.is_main_process:
            callbacks.append(Recorder(metrics, self.folder.name))
            if self.training.tensorboard:
                callbacks.append(tensorboard(self.folder / TENSORBOARD))
        if self.training.patience:
            callbacks.append(EarlyStoppingCallback(self.training.patience))
        checkpoints = self.folder / CHECKPOINTS
        wrapped = list(getattr(model, "_no_split_modules", None) or [])
        trainer = EvolveTrainer(
            model,
            training_arguments(
                self.training, checkpoints, batches.parts, self.metric, self.kind.metrics[self.metric], wrapped
            ),
            options=self.training,
            train=RowStore(self.data.train),
            validation=self.data.validation,
            batches=batches,
            tokenizer=self.data.tokenizer,
            collate=self.kind.collator(self.session(model)),
            score=lambda model: self.score(model, "validation", final=False).metrics,
            loss=self.kind.loss(self.recipe),
            callbacks=callbacks,
        )
        resumed = self.newest_checkpoint(checkpoints)
        if resumed is not None:
            with load_errors(resumed, REMOVE_IT):
                stopped = stopped_early(resumed, self.training.patience)
            if stopped is not None:
                return stopped
        try:
            trainer.train(resume_from_checkpoint=None if resumed is None else str(resumed))
        except Exception as error:
            if resumed is None or trainer.stepped:
                raise
            with load_errors(resumed, REMOVE_IT):
                raise error
        finally:
            asked.release()
            for callback in callbacks:
                if isinstance(callback, Recorder):
                    callback.close()
        if asked.asked and trainer.state.global_step < trainer.state.max_steps:
            raise Interrupted(f"saved at step {trainer.state.global_step:,}; the same command goes on from there")
        assert trainer.state.best_global_step is not None
        return trainer.state.best_global_step

    def batches(self, model: PreTrainedModel) -> Batches:
        options = self.training
        assert self.data.train is not None
        lengths = self.data.train["length"][:]
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
        if options.memory is not None:
            batches.parts = parts_within(options.memory, model.config, batches)
            if self.state.is_main_process:
                say(f"a batch is worked through in {batches.parts} parts to stay within {options.memory}")
        return batches

    def newest_checkpoint(self, checkpoints: Path) -> Path | None:
        """The checkpoint to go on from; what a crash left half written is removed."""
        if self.state.is_main_process:
            shutil.rmtree(checkpoints / PARTIAL, ignore_errors=True)
        self.state.wait_for_everyone()
        newest, complaints = newest_whole(checkpoints)
        if self.state.is_main_process:
            for complaint in complaints:
                say(f"warning: {complaint}; it is not used")
            if newest is not None:
                say(f"going on from {newest}")
            elif complaints:
                say("no checkpoint is whole: starting from the beginning")
        return newest

    def check_reloaded(self, validation: dict[str, float], best_step: int, metrics: MetricsFile) -> None:
        """A model read back from disk must score as it did when it was selected."""
        recorded = [row for row in metrics.rows() if row["step"] == best_step and f"eval_{self.metric}" in row]
        if not recorded:
            return
        before, now = recorded[-1][f"eval_{self.metric}"], validation[self.metric]
        if abs(before - now) > (1e-6 if self.training.precision == "fp32" else 5e-3):
            raise UserError(
                f"the model of step {best_step} scored {before:.6f} in training, but {now:.6f} read back from"
                f" {self.folder}: what was saved is not what was trained"
            )


def stopped_early(checkpoint: Path, patience: int) -> int | None:
    """The best step of a training that had run out of patience when this checkpoint was written; else None."""
    state = json.loads((checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    kept = state["stateful_callbacks"].get(EarlyStoppingCallback.__name__, {}).get("attributes", {})
    out_of_patience = patience and kept.get("early_stopping_patience_counter", 0) >= patience
    return state["best_global_step"] if out_of_patience else None


def default_tokens(lengths: list[int]) -> int:
    """A batch small enough that an epoch has a hundred steps, but of at least eight rows."""
    return min(LARGEST_DEFAULT_BATCH, max(sum(lengths) // 100, 8 * max(lengths)))


def default_output(recipe: Recipe) -> str:
    model = recipe.model
    name = (model.variant or "fullFF-1") if model.system == "transevolve" else model.system
    return f"runs/{recipe.data.task}-{name}-{recipe.training.seed}"


def refuse_another(folder: Path, recipe: Recipe) -> None:
    """A folder that is not empty must hold the same training."""
    path = folder / RECIPE
    if path.exists():
        before, now = flat(read_settings(path)), flat(asdict(recipe))
        open_now = INCONSEQUENTIAL | {key for key in RECOGNISED if now[key] is None}
        changed = [k for k in now if k not in open_now and k in before and before[k] != now[k]]
        if changed:
            key = changed[0]
            raise UserError(
                f"{folder} holds another training ({key} was {before[key]}, is {now[key]}):"
                " choose another --output, or remove the folder"
            )
    elif any(p.name != ".lock" for p in folder.iterdir()):
        raise UserError(f"{folder} is not empty and not a run: choose another --output")


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def read_result(folder: Path) -> Result | None:
    """The result of a finished run; None if it is not finished, or if the model or what is told of it is damaged."""
    try:
        check_manifest(folder)
        return Result(**read_results(folder / RESULTS))
    except (UserError, TypeError):
        return None
