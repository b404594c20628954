"""One run after its data are loaded: trains, selects a model, reloads it, scores it and writes the results."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from ..core.errors import UserError
from ..core.files import write_atomically
from ..core.messages import say
from ..data import TextData
from ..data.options import Split
from ..data.stored import Chained
from ..runs.folder import publish_model
from ..runs.names import CURVES, REFIT, RESULTS, SELF_TRAINING
from ..runs.plots import write_curves
from ..runs.results import Result
from .fit import Fit
from .processes import decided_by_main
from .self_training import guessed_texts, with_guesses


class Run(Fit):
    """A training whose best model is published in the run folder and scored."""

    def result(self, command: str) -> Result:
        best_step = self.fit()
        splits: tuple[Split, ...] = ("validation",) if self.training.refit else ("validation", "test")
        model = self.published(self.checkpoint(best_step), splits)
        again = self.score(model, "validation", final=False)
        self.check_reloaded(again.metrics, best_step)
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
        rows = self.log.rows()
        result = Result.gather(
            self.recipe,
            command,
            self.data,
            model,
            rows,
            best_step=best_step,
            validation=validation,
            test=test,
            machine=self.facts,
            refit_seconds=refit_seconds,
            yardstick=self.yardstick(validation, test),
            baseline=self.kind.baseline(self.data),
            self_training=taught,
            average=average,
        )
        if self.state.is_main_process:
            for note in (tested or scored).notes(self.training):
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
        return self.loaded(self.folder)

    def averaged(
        self, model: PreTrainedModel, best_step: int, alone: dict[str, float], validation: dict[str, float]
    ) -> tuple[PreTrainedModel, dict[str, float], dict[str, Any]]:
        """Average the last checkpoints; returns the better model, its scores and what was compared."""
        steps, folder = self.average()
        other = self.loaded(folder)
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
        again = Fit(self.recipe, self.folder / SELF_TRAINING, data, self.state, self.stop, self.kind)
        again.folder.mkdir(exist_ok=True)
        checkpoint = again.checkpoint(again.fit())
        scores = self.score(self.loaded(checkpoint), "validation", final=False).metrics
        better = self.better(scores, validation)
        seconds = again.log.rows()[-1]["seconds"]
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
        again = Fit(recipe, folder, rows, self.state, self.stop, self.kind, validates=False, chosen=chosen)
        again.folder.mkdir(exist_ok=True)
        trained, logged = again.checkpoint(again.fit()), again.log.rows()
        model = self.published(again.average()[1] if averaged else trained, ("test",))
        return model, logged[-1]["seconds"] if logged else 0.0

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

    def check_reloaded(self, validation: dict[str, float], best_step: int) -> None:
        """Raise an error if the reloaded model does not score as it did during training."""
        recorded = [row for row in self.log.rows() if row["step"] == best_step and f"eval_{self.metric}" in row]
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
