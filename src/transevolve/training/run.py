"""One run after its data are loaded: trains, selects a model, reloads it, scores it and writes the results."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import EarlyStoppingCallback, PreTrainedModel, set_seed

from ..config.files import recipe_yaml
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import write_atomically
from ..core.messages import say
from ..core.private import sharded_modules
from ..data import TextData
from ..data.batching import Batches, RowStore, default_tokens
from ..data.options import Split
from ..data.stored import Chained
from ..kinds.base import Kind, Score
from ..kinds.session import Session
from ..kinds.start import copy_weights
from ..runs.averaging import write_average
from ..runs.data_record import DataRecord, require_same_prepared
from ..runs.folder import load_errors, load_model, publish_model
from ..runs.metrics_file import MetricsFile
from ..runs.names import AVERAGE, CHECKPOINTS, CURVES, DATA, RECIPE, REFIT, RESULTS, SELF_TRAINING, TENSORBOARD
from ..runs.plots import write_curves
from ..runs.results import Result, machine_facts
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
from .self_training import guessed_texts, with_guesses
from .trainer import EvolveTrainer


class Interrupted(Exception):
    """The run was stopped by a signal, after saving a checkpoint."""


@dataclass
class Run:
    """The recipe, data and state of one run.

    Attributes:
        chosen: Fields of the model's configuration that another run chose on validation.
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

    def result(self, command: str) -> Result:
        metrics = MetricsFile(self.folder)
        best_step = self.fit(metrics)
        splits: tuple[Split, ...] = ("validation",) if self.training.refit else ("validation", "test")
        model = self.published(self.folder / CHECKPOINTS / f"checkpoint-{best_step}", splits)
        again = self.score(model, "validation", final=False)
        self.check_reloaded(again.metrics, best_step, metrics)
        scored = again if self.kind.scored_alike else self.score(model, "validation", final=True)
        validation, data, taught, average = scored.metrics, self.data, None, None
        if self.training.average:
            model, validation, average = self.averaged(model, best_step, again.metrics, validation)
        if self.training.self_training:
            model, validation, data, taught = self.self_train(model, validation)
        refit_seconds = None
        if self.training.refit:
            model, refit_seconds = self.refit(model, data, average is not None and average["used"])
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
        result = replace(result, average=average)
        if self.state.is_main_process:
            for note in (tested or scored).notes():
                say(note)
            write_curves(self.folder / CURVES, rows, f"{result.task}, {result.system}")
            write_atomically(self.folder / RESULTS, json.dumps(asdict(result), indent=1) + "\n")
        return result

    def published(self, checkpoint: Path, scored_on: tuple[Split, ...]) -> PreTrainedModel:
        """Copy the model of a checkpoint to the run folder and load it from there."""
        if self.state.is_main_process:
            publish_model(checkpoint, self.folder)
            parts = {name: self.data.split(name) for name in scored_on}
            sizes = [f"{len(rows):,} rows of {name}" for name, rows in parts.items() if rows is not None]
            if sizes:
                say(f"scoring {checkpoint.name.replace('checkpoint-', 'the model of step ')} on {' and '.join(sizes)}")
        self.state.wait_for_everyone()
        model: PreTrainedModel = load_model(self.folder, self.kind.auto_class)
        return model.to(self.state.device)  # pyright: ignore[reportArgumentType]

    def averaged(
        self, model: PreTrainedModel, best_step: int, alone: dict[str, float], validation: dict[str, float]
    ) -> tuple[PreTrainedModel, dict[str, float], dict[str, Any]]:
        """Average the last checkpoints; returns the better model, its scores and what was compared."""
        steps, folder = self.average()
        other = load_model(folder, self.kind.auto_class).to(self.state.device)  # pyright: ignore[reportArgumentType]
        # Fields of its configuration come from the last checkpoint and are published with it.
        scores = self.score(other, "validation", final=bool(self.kind.chosen_on_validation)).metrics
        better = self.better(scores, alone)
        if self.state.is_main_process:
            compared = f"{self.metric} {scores[self.metric]:.4f}, step {best_step:,} {alone[self.metric]:.4f}"
            kept = "the average" if better else f"step {best_step:,}"
            say(f"average of {len(steps)} checkpoints: {compared}; {kept} is kept")
        facts = {"steps": steps, "used": better, "before": alone, "after": scores}
        if not better:
            return model, validation, facts
        model = self.published(folder, () if self.training.refit else ("test",))
        return model, scores if self.kind.scored_alike else self.score(model, "validation", final=True).metrics, facts

    def average(self) -> tuple[list[int], Path]:
        """The steps of the last checkpoints, and a folder with the mean of their weights."""
        found, folder = checkpoints(self.folder / CHECKPOINTS)[-self.training.average :], self.folder / AVERAGE
        if self.state.is_main_process and not folder.exists():
            write_average([path for _, path in found], folder)
        self.state.wait_for_everyone()
        return [step for step, _ in found], folder

    def better(self, scores: dict[str, float], others: dict[str, float]) -> bool:
        gain = scores[self.metric] - others[self.metric]
        return (gain if self.kind.metrics[self.metric] else -gain) > 0

    def self_train(
        self, model: PreTrainedModel, validation: dict[str, float]
    ) -> tuple[PreTrainedModel, dict[str, float], TextData, dict[str, Any]]:
        """Train again with texts labelled by the model; returns the better model, its scores, its data and facts."""
        alone = replace(self.session(model), process=0, processes=1)
        guessed = decided_by_main(self.state, lambda: guessed_texts(self.kind, alone, self.recipe, self.data))
        if not guessed[0]:
            say("self-training: the model is not confident about any unlabelled text")
            return model, validation, self.data, {"texts": 0, "used": False, "seconds": 0.0}
        if self.state.is_main_process:
            say(f"self-training: training again with {len(guessed[0]):,} texts labelled by the model")
        data = with_guesses(self.data, *guessed)
        again = Run(self.recipe, self.folder / SELF_TRAINING, data, self.state, self.stop, self.kind)
        again.folder.mkdir(exist_ok=True)
        checkpoint = again.folder / CHECKPOINTS / f"checkpoint-{again.fit(MetricsFile(again.folder))}"
        other = load_model(checkpoint, self.kind.auto_class).to(self.state.device)  # pyright: ignore[reportArgumentType]
        scores = self.score(other, "validation", final=False).metrics
        better = self.better(scores, validation)
        seconds = MetricsFile(again.folder).rows()[-1]["seconds"]
        facts = {"texts": len(guessed[0]), "used": better, "before": validation, "after": scores, "seconds": seconds}
        if self.state.is_main_process:
            compared = f"{self.metric} {validation[self.metric]:.4f} before, {scores[self.metric]:.4f} after"
            say(f"self-training: {compared}; the {'second' if better else 'first'} model is kept")
        if not better:
            return model, validation, self.data, facts
        return self.published(checkpoint, () if self.training.refit else ("test",)), scores, data, facts

    def refit(self, selected: PreTrainedModel, data: TextData, averaged: bool) -> tuple[PreTrainedModel, float]:
        """Train again on all rows, with as many epochs; returns the model and the seconds it took."""
        if self.state.is_main_process:
            say("training again on all rows, including validation (training.refit)")
        options = replace(self.training, patience=0, eval_steps=0)
        recipe = replace(self.recipe, training=options)
        chosen = {name: getattr(selected.config, name) for name in self.kind.chosen_on_validation}
        folder, rows = self.folder / REFIT, joined(data)
        again = Run(recipe, folder, rows, self.state, self.stop, self.kind, validates=False, chosen=chosen)
        again.folder.mkdir(exist_ok=True)
        metrics = MetricsFile(again.folder)
        step = again.fit(metrics)
        seconds = metrics.rows()[-1]["seconds"] if metrics.rows() else 0.0
        trained = again.average()[1] if averaged else again.folder / CHECKPOINTS / f"checkpoint-{step}"
        return self.published(trained, ("test",)), seconds

    def yardstick(self, validation: dict[str, float], test: dict[str, float] | None) -> dict[str, Any] | None:
        """Scores of a simple method on the same rows, in the main process."""
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
            batches.parts = decided_by_main(self.state, lambda: parts_within(budget, self.kind, model.config, batches))
            if self.state.is_main_process:
                say(f"each batch is processed in {batches.parts} parts to stay within {budget}")
        return batches

    def check_reloaded(self, validation: dict[str, float], best_step: int, metrics: MetricsFile) -> None:
        """Raise an error if the reloaded model does not score as it did during training."""
        recorded = [row for row in metrics.rows() if row["step"] == best_step and f"eval_{self.metric}" in row]
        if not recorded:
            return
        before, now = recorded[-1][f"eval_{self.metric}"], validation[self.metric]
        if not abs(before - now) <= (1e-6 if self.training.precision == "fp32" else 5e-3):
            raise UserError(
                f"the model of step {best_step} scored {before:.6f} in training, but {now:.6f} when reloaded from"
                f" {self.folder}: the saved model differs from the trained one"
            )


def joined(data: TextData) -> TextData:
    """Add the validation rows to the training rows."""
    from datasets import concatenate_datasets

    originals = {**data.originals}
    if "train" in originals:
        originals["train"] = Chained(originals["train"], originals["validation"])
    assert data.train is not None
    assert data.validation is not None
    return replace(data, train=concatenate_datasets([data.train, data.validation]), originals=originals)


def require_finite(scores: dict[str, float], what: str) -> None:
    for name, value in scores.items():
        if not math.isfinite(value):
            raise UserError(f"{what} has a {name} of {value}: it is unusable; lower the learning rate and train again")
