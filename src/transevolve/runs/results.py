"""`results.json`: the scores of a run, and what they depend on."""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from ..config.recipe import Recipe
from ..core.json_files import read_json
from ..core.machine import commit, conditions, device_name, load_average, versions
from ..data import TextData, task_of
from ..evolution.settings import EvolutionSettings


@dataclass(frozen=True)
class Result:
    """The results of a run.

    Args:
        epochs: Metrics of each validation, with step, epoch and seconds of training.
        baseline: Metrics of the best constant prediction, by split.
        selected_on: The split that selected the model; `test` was scored once, afterwards.
        yardstick: Scores of a bag of words on the same rows.
        average: The steps whose weights were averaged, the validation scores before and after, and which one was used.
        refit: Whether the model was trained a second time on all rows, including validation; `validation` is the score
            of the first training.
    """

    task: str
    system: str
    parameters: int
    parameters_without_embedding: int
    epochs: list[dict[str, float]]
    best_step: int
    selected_by: str
    selected_on: str
    validation: dict[str, float]
    test: dict[str, float] | None
    seconds: float
    seconds_per_epoch: float
    tokens_per_second: float
    seed: int
    command: str
    machine: dict[str, str]
    data: dict[str, Any]
    baseline: dict[str, dict[str, float]] = field(default_factory=dict)
    yardstick: dict[str, Any] | None = None
    refit: bool = False
    start: str | None = None
    self_training: dict[str, Any] | None = None
    average: dict[str, Any] | None = None

    @classmethod
    def gather(
        cls,
        recipe: Recipe,
        command: str,
        data: TextData,
        model: PreTrainedModel,
        rows: list[dict[str, Any]],
        *,
        best_step: int,
        validation: dict[str, float],
        test: dict[str, float] | None,
        machine: dict[str, str],
        refit_seconds: float | None = None,
        yardstick: dict[str, Any] | None = None,
        baseline: dict[str, dict[str, float]] | None = None,
        self_training: dict[str, Any] | None = None,
        average: dict[str, Any] | None = None,
    ) -> "Result":
        evaluations = [
            {key.removeprefix("eval_"): value for key, value in row.items()}
            for row in rows
            if any(key.startswith("eval_") for key in row)
        ]
        last = rows[-1]
        rates = [row["tokens_per_second"] for row in rows if "tokens_per_second" in row]
        total = sum(p.numel() for p in model.parameters())
        embedding = sum(p.numel() for p in model.get_input_embeddings().parameters())
        return cls(
            task=task_of(recipe.data),
            system=describe(recipe),
            parameters=total,
            parameters_without_embedding=total - embedding,
            epochs=evaluations,
            best_step=best_step,
            selected_by=str(recipe.training.select),
            selected_on=data.report.selection,
            validation=validation,
            test=test,
            seconds=last["seconds"] + (refit_seconds or 0.0) + (self_training or {}).get("seconds", 0.0),
            seconds_per_epoch=seconds_per_epoch(rows),
            tokens_per_second=sorted(rates)[len(rates) // 2] if rates else 0.0,
            seed=recipe.training.seed,
            command=command,
            machine=machine,
            data=data.report.as_dict(),
            yardstick=yardstick,
            refit=refit_seconds is not None,
            start=recipe.model.start,
            baseline=baseline or {},
            self_training=self_training,
            average=average,
        )


def seconds_per_epoch(rows: list[dict[str, Any]]) -> float:
    """The seconds per epoch; in a run of less than one epoch, the steps are extrapolated, but not the validations."""
    last, scored = rows[-1], 0.0
    for before, row in pairwise(rows):
        if any(name.startswith("eval_") for name in row):
            scored += row["seconds"] - before["seconds"]
    return (last["seconds"] - scored) / max(last["epoch"], 1e-9) + scored / max(last["epoch"], 1.0)


def read_results(path: Path) -> Result:
    """Reads a results.json; raises UserError with the first invalid key."""
    return read_json(path, Result)


def machine_facts(device: torch.device) -> dict[str, str]:
    """Returns what the results depend on in addition to the settings, as measured when training starts."""
    return {
        "device": device_name(str(device)),
        **conditions(),
        "load": f"{load_average():.2f}",
        **versions(),
        "commit": commit() or "not a checkout",
    }


def describe(recipe: Recipe) -> str:
    model = recipe.model
    named = model.is_ours and model.attention not in (None, EvolutionSettings.attention)
    return f"{model.label}:{model.attention}" if named else model.label


def result_rows(result: Result) -> list[list[str]]:
    """Returns the rows of a summary table."""
    rows = [
        ["system", result.system if result.start is None else f"{result.system}, started from {result.start}"],
        ["parameters", f"{result.parameters:,} ({result.parameters_without_embedding:,} without the embedding)"],
        ["selected", f"step {result.best_step:,}, by {result.selected_by} on {result.selected_on}"],
        ["validation", numbers(result.validation)],
    ]
    if result.refit:
        rows.append(["trained again", "on all rows, including validation; test is the score of this model"])
    if result.test is not None:
        rows.append(["test", numbers(result.test)])
    for split, metrics in result.baseline.items():
        rows.append([f"baseline, {split}", numbers(metrics)])
    rows.append(["time", f"{result.seconds:,.0f} s, {result.seconds_per_epoch:,.0f} s per epoch"])
    rows.append(["speed", f"{result.tokens_per_second:,.0f} tokens/s"])
    return rows


def numbers(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
