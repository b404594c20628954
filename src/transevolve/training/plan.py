"""Estimates the steps, time and memory of a training run by measuring a few steps."""

import math
import time
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, set_seed

from ..config.recipe import Recipe
from ..core.devices import default_device, synchronize
from ..core.errors import UserError
from ..core.machine import device_name
from ..core.peak_memory import peak_memory
from ..core.progress import clock
from ..data import TextData, load_data
from ..data.batching import Batches, RowStore, default_tokens
from ..data.views import column_array
from ..kinds.base import Kind
from ..kinds.registry import decide
from ..kinds.session import Session
from ..kinds.start import settle
from ..runs.results import describe
from .hf_arguments import check_training
from .optimizer import build_optimizer
from .precision import choose_precision

SECONDS, MOST_STEPS = 10.0, 50
FORWARD_SHARE = 1 / 3


@dataclass(frozen=True)
class Plan:
    """An estimate.

    Args:
        tokens: Tokens per epoch, without padding.
        padded: Tokens per epoch, with padding.
        measured: Number of timed steps.
        rate: Tokens per second in training, with padding.
        seconds: Estimated time of all steps and validations.
        core_seconds: The same in seconds of one core, which does not include waiting for other processes.
        memory: Peak memory of the largest batch, in bytes.
    """

    rows: dict[str, int]
    tokens: int
    padded: int
    steps_per_epoch: int
    steps: int
    parameters: int
    device: str
    precision: str
    system: str
    measured: int
    rate: float
    seconds: float
    core_seconds: float
    memory: int

    def table(self) -> list[list[str]]:
        return [
            ["rows", ", ".join(f"{split} {count:,}" for split, count in self.rows.items())],
            ["tokens per epoch", f"{self.tokens:,}, with padding {self.padded:,}"],
            ["steps", f"{self.steps:,}, {self.steps_per_epoch:,} per epoch"],
            ["parameters", f"{self.parameters:,}"],
            ["speed", f"{self.rate:,.0f} tokens/s in {self.precision} on {self.device}, over {self.measured} steps"],
            ["time", f"about {clock(self.seconds)} (h:mm:ss), validation included"],
            ["memory", f"about {self.memory / 1e9:.2f} GB for the model, its optimizer and the largest batch"],
        ]


def plan(recipe: Recipe) -> Plan:
    """Load the data, build the model, and time some training steps; no run is written."""
    kind, tokenizer = settle(recipe)
    check_training(recipe.training)
    recipe.training.precision, _ = choose_precision(recipe.training.precision)
    data = load_data(recipe.data, tokenizer=tokenizer)
    kind.check_vocabulary(recipe, len(data.tokenizer))
    decide(kind, recipe, data)
    if data.train is None or not len(data.train):
        raise UserError("there are no training rows")
    set_seed(recipe.training.seed)
    device, options = default_device(), recipe.training
    lengths = column_array(data.train, "length")
    tokens = options.batch_tokens or (None if options.batch_size else default_tokens(lengths))
    batches = Batches(lengths, rows=options.batch_size, tokens=tokens, seed=options.seed)
    with peak_memory(str(device)) as read:
        model: PreTrainedModel = kind.build(recipe, data)
        model.to(device)  # pyright: ignore[reportArgumentType]
        measured, rate, cores = _measure(recipe, kind, data, model, batches)
        memory, _ = read()
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches.whole())
    steps = options.max_steps or math.ceil((options.epochs or 1) * len(batches))
    epochs = steps / len(batches) * (2 if options.refit else 1)
    scored = 0 if data.validation is None else int(column_array(data.validation, "length").sum())
    validations = steps // options.eval_steps if options.eval_steps else math.ceil(epochs)
    seconds = (epochs * padded + FORWARD_SHARE * validations * scored) / rate
    return Plan(
        rows={split: facts.rows for split, facts in data.report.splits.items()},
        tokens=int(lengths.sum()),
        padded=padded,
        steps_per_epoch=len(batches),
        steps=steps,
        parameters=sum(weight.numel() for weight in model.parameters()),
        device=device_name(str(device)),
        precision=recipe.training.precision,
        system=describe(recipe),
        measured=measured,
        rate=rate,
        seconds=seconds,
        core_seconds=seconds * cores,
        memory=memory,
    )


def _measure(
    recipe: Recipe, kind: Kind, data: TextData, model: PreTrainedModel, batches: Batches
) -> tuple[int, float, float]:
    """Timed steps, tokens per second, and cores in use on average. The largest batch comes first and is not timed."""
    device = next(model.parameters()).device
    session = Session(model, data.tokenizer, recipe, device, recipe.training.eval_tokens)
    rows, collate, loss_of = RowStore(data.train), kind.collator(session), kind.loss(recipe, data)
    optimizer = build_optimizer(model, recipe.training)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    order = batches.whole()
    largest = max(order, key=lambda batch: len(batch) * int(rows.lengths[batch].max()) ** 2)
    tokens, spent, computed, measured = 0, 0.0, 0.0, 0
    bf16 = recipe.training.precision == "bf16"
    model.train()
    for number, batch in enumerate([largest, *order[:MOST_STEPS]]):
        inputs = {name: value.to(device) for name, value in collate([rows[int(row)] for row in batch]).items()}
        started, computing = time.perf_counter(), time.process_time()
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            outputs = model(**inputs)
            loss = outputs.loss if loss_of is None else loss_of(outputs, inputs["labels"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        synchronize(device)
        if number:
            spent += time.perf_counter() - started
            computed += time.process_time() - computing
            tokens += inputs["input_ids"].numel()
            measured += 1
        if spent > SECONDS:
            break
    return measured, tokens / max(spent, 1e-9), computed / max(spent, 1e-9)
