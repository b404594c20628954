"""What a kind of task brings to training: how its model is built and scored. A new kind is a class and a line."""

from typing import Any

from accelerate import PartialState
from transformers import PreTrainedModel

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..data import TASKS, TextData, task_of
from ..data.options import Split
from ..metrics.classification import classify, scoring_loader
from .build import build_classifier, build_translator
from .translating import score_translation, smoothed_loss


class Classification:
    """Texts into classes."""

    selectable = ("accuracy", "loss")
    defaults = {"training.beta2": 0.999, "training.eps": 1e-8}  # noqa: RUF012

    def __init__(self, recipe: Recipe, data: TextData, state: PartialState):
        self.recipe, self.data, self.state = recipe, data, state

    def build(self) -> PreTrainedModel:
        return build_classifier(self.recipe.model, self.data.tokenizer, self.data.labels, self.data.report.max_length)

    def loss_function(self) -> Any:
        """None: the model computes its own loss."""
        return None

    def score(self, model: PreTrainedModel, split: Split, final: bool = False) -> dict[str, float]:
        """Metrics of a split, by all processes together."""
        rows = self.data.split(split)
        assert rows is not None
        pad, tokens = self.data.tokenizer.pad_token_id or 0, self.recipe.training.eval_tokens
        loader = scoring_loader(rows, pad, tokens, self.state.process_index, self.state.num_processes)
        found = classify(model, loader, len(self.data.labels), self.state.device)
        if self.state.num_processes > 1:
            found = found.reduced(self.state.device)
        return found.metrics(self.data.labels)


class Translation:
    """Sentences into sentences. Validation is decoded greedily while training, and by beam search at the end."""

    selectable = ("bleu", "loss")
    defaults = {"training.beta2": 0.98, "training.eps": 1e-9, "model.label_smoothing": 0.1}  # noqa: RUF012

    def __init__(self, recipe: Recipe, data: TextData, state: PartialState):
        self.recipe, self.data, self.state = recipe, data, state

    def build(self) -> PreTrainedModel:
        return build_translator(self.recipe.model, self.data.tokenizer, self.data.report.max_length)

    def loss_function(self) -> Any:
        """Models that are not ours get the loss that ours computes."""
        if self.recipe.model.system == "transevolve":
            return None
        return smoothed_loss(self.recipe.model.label_smoothing or 0.0)

    def score(self, model: PreTrainedModel, split: Split, final: bool = False) -> dict[str, float]:
        rows = self.data.split(split)
        assert rows is not None
        training = self.recipe.training
        return score_translation(
            model,
            rows,
            self.data.tokenizer,
            beams=training.beams if final else training.eval_beams,
            extra_length=training.extra_length,
            tokens=training.eval_tokens,
            state=self.state,
        )


JOBS = {"classification": Classification, "translation": Translation}


def job_of(recipe: Recipe) -> type[Classification] | type[Translation]:
    name = task_of(recipe.data)
    if name not in TASKS:
        return Classification
    return JOBS[TASKS[name].kind]


def resolve(recipe: Recipe) -> None:
    """Fills in what the kind of task decides, where nothing was said."""
    job = job_of(recipe)
    for key, value in job.defaults.items():
        group, name = key.split(".")
        options = getattr(recipe, group)
        if getattr(options, name) is None:
            setattr(options, name, value)
    select = recipe.training.select
    if select is None:
        recipe.training.select = job.selectable[0]
    elif select not in job.selectable:
        kinds = " and ".join(job.selectable)
        raise UserError(f"training.select={select} does not exist here: this task has {kinds}")
