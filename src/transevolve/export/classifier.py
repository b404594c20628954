"""A classifier as a module of two tensors to logits, and batches to compare an exported one with."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..core.errors import UserError
from ..evolution.attention import EvolvedAttention
from ..inference import load
from ..kinds.base import Kind
from ..models.config import TransEvolveConfig

Forward = Callable[[Tensor, Tensor], Tensor]
TOLERANCE = 1e-4
CHECKED = ((1, 1), (1, 7), (2, 16), (3, 33), (2, 128))


class Logits(nn.Module):
    """`input_ids` and `attention_mask` to what the kind of task makes of the logits."""

    def __init__(self, model: PreTrainedModel, kind: Kind):
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return self.kind.graph(logits, self.model.config)


def load_logits(folder: Path) -> Logits:
    """The model of a run."""
    run = load(folder, "cpu")
    return logits_of(run.model, run.kind)


def logits_of(model: PreTrainedModel, kind: Kind, backend: str | None = None) -> Logits:
    """The model as a graph; `backend` replaces exact ones, which compute the same.

    One eager pass draws the random features of this point of training, which an exported graph keeps.
    """
    for module in model.modules():
        if backend is not None and isinstance(module, EvolvedAttention) and module.backend.exact:
            module.backend = backend
    logits = Logits(model, kind).eval()
    with torch.no_grad():
        logits(*sample(1, 1, model.config.vocab_size))
    return logits


def length_limit(config: PreTrainedConfig) -> int | None:
    """None for TransEvolve, which computes positions; other systems may be limited to the length of their config."""
    return None if isinstance(config, TransEvolveConfig) else config.max_position_embeddings


def dynamic_shapes() -> dict[str, dict[int, torch.export.Dim]]:
    """Any batch, any length, the same for both inputs."""
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    return {"input_ids": shape, "attention_mask": shape}


def sample(rows: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    """Ids and a mask; each row has one token less than the row before."""
    generator = torch.Generator().manual_seed(1000 * rows + length)
    ids = torch.randint(0, vocab, (rows, length), generator=generator)
    lengths = (length - torch.arange(rows)).clamp(min=1)
    return ids, (torch.arange(length) < lengths[:, None]).long()


def largest_difference(expected: Forward, found: Forward, config: PreTrainedConfig) -> float:
    """Largest difference of logits over batches of several shapes, padded and not."""
    worst, limit = 0.0, length_limit(config)
    with torch.inference_mode():
        for rows, length in CHECKED:
            batch = sample(rows, min(length, limit or length), config.vocab_size)
            worst = max(worst, float((expected(*batch) - found(*batch)).abs().max()))
    return worst


def require_equal(difference: float, what: str) -> None:
    if math.isnan(difference) or difference > TOLERANCE:
        raise UserError(
            f"{what} differs from the model by {difference:.2g}, more than {TOLERANCE:g}: it was not written"
        )
