"""One cell of a benchmark: a system at one length and batch size, and the step that is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..config.recipe import TrainingOptions
from ..training.optimizer import build_optimizer, build_schedule
from .options import BenchOptions
from .systems import NUM_LABELS, Spec, build_model, feature_count

Inputs = dict[str, Tensor]
TRAINING = TrainingOptions(schedule="constant", learning_rate=1e-4, warmup=1)


@dataclass(frozen=True)
class Cell:
    """The definition of a step, in plain values that can be sent to another process."""

    system: str
    size: str
    length: int
    batch: int
    mode: str
    vocab: int
    features: int | None
    seed: int
    device: str
    threads: int | None
    precision: str = "fp32"

    @classmethod
    def of(cls, spec: Spec, options: BenchOptions, length: int, batch: int) -> "Cell":
        o = options
        shape = (spec.text, spec.size, length, batch)
        return cls(*shape, o.mode, o.vocab, o.features, o.seed, o.device, o.threads, o.precision)

    def autocast(self) -> AbstractContextManager:
        """As in training: parameters in float32, matrix products in `precision`."""
        low = self.precision == "bf16"
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=low, cache_enabled=low)


@dataclass(frozen=True)
class Workload:
    """A model and its step, which leaves no gradients behind."""

    model: PreTrainedModel
    step: Callable[[Inputs], None]
    parameters: int
    features: int | None


def load(cell: Cell, spec: Spec) -> Workload:
    """Builds the model and its step: a training step, or a forward pass without gradients."""
    torch.manual_seed(cell.seed)
    model = build_model(spec, length=cell.length, vocab=cell.vocab, features=cell.features)
    model.to(cell.device)  # pyright: ignore[reportArgumentType]
    step = _training_step(model, cell) if cell.mode == "train" else _forward_step(model, cell)
    return Workload(model, step, model.num_parameters(), feature_count(model, spec))


def _training_step(model: PreTrainedModel, cell: Cell) -> Callable[[Inputs], None]:
    model.train()
    optimizer = build_optimizer(model, TRAINING)
    build_schedule(optimizer, TRAINING, total=1, hidden_size=model.config.hidden_size)

    def step(inputs: Inputs) -> None:
        with cell.autocast():
            loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _forward_step(model: PreTrainedModel, cell: Cell) -> Callable[[Inputs], None]:
    model.eval()

    @torch.no_grad()
    def step(inputs: Inputs) -> None:
        with cell.autocast():
            model(input_ids=inputs["input_ids"])

    return step


def random_inputs(cell: Cell, batch: int, length: int) -> Inputs:
    """Token ids without padding, and labels, the same for every system."""
    generator = torch.Generator().manual_seed(cell.seed)
    ids = torch.randint(cell.vocab, (batch, length), generator=generator)
    labels = torch.randint(NUM_LABELS, (batch,), generator=generator)
    return {"input_ids": ids.to(cell.device), "labels": labels.to(cell.device)}
