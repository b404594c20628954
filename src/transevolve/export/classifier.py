"""A classifier as a module from ids and mask to logits, and its comparison with an exported model."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..core.errors import UserError
from ..evolution.attention import EvolvedAttention
from ..kinds.base import Kind
from ..models.config import TransEvolveConfig

Forward = Callable[[Tensor, Tensor], Tensor]
TOLERANCE = 1e-4
CHECKED_SHAPES = ((1, 1), (1, 7), (2, 16), (3, 33), (2, 128))


class Logits(nn.Module):
    """Computes the exported output of a kind of task from `input_ids` and `attention_mask`."""

    def __init__(self, model: PreTrainedModel, kind: Kind):
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return self.kind.graph(logits, self.model.config)


def logits_of(model: PreTrainedModel, kind: Kind, backend: str | None = None) -> Logits:
    """Returns the model as a module to export; `backend` replaces exact backends, which compute the same result.

    An eager pass draws the random features of the current training step, which an exported graph keeps.
    """
    for module in model.modules():
        if backend is not None and isinstance(module, EvolvedAttention) and module.backend.exact:
            module.backend = backend
    logits = Logits(model, kind).eval()
    with torch.no_grad():
        logits(*sample(1, 1, model.config.vocab_size))
    return logits


def length_limit(config: PreTrainedConfig) -> int | None:
    """Returns None for TransEvolve, which computes positions, and the maximum length in the config of other systems."""
    return None if isinstance(config, TransEvolveConfig) else config.max_position_embeddings


def dynamic_shapes() -> dict[str, dict[int, torch.export.Dim]]:
    """Returns dynamic dimensions for batch size and length, the same for both inputs."""
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    return {"input_ids": shape, "attention_mask": shape}


def sample(rows: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    """Returns random ids and a mask; each row is one token shorter than the previous one."""
    generator = torch.Generator().manual_seed(1000 * rows + length)
    ids = torch.randint(0, vocab, (rows, length), generator=generator)
    lengths = (length - torch.arange(rows)).clamp(min=1)
    return ids, (torch.arange(length) < lengths[:, None]).long()


def largest_difference(expected: Forward, found: Forward, config: PreTrainedConfig) -> float:
    """Returns the largest difference of logits over batches of several shapes, with and without padding."""
    worst, limit = 0.0, length_limit(config)
    with torch.inference_mode():
        for rows, length in CHECKED_SHAPES:
            batch = sample(rows, min(length, limit or length), config.vocab_size)
            worst = max(worst, float((expected(*batch) - found(*batch)).abs().max()))
    return worst


def require_close(difference: float, name: str, tolerance: float | None = None) -> None:
    """Raises UserError if the difference is NaN or exceeds the tolerance, by default `TOLERANCE`."""
    tolerance = TOLERANCE if tolerance is None else tolerance
    if not difference <= tolerance:
        raise UserError(
            f"{name} differs from the model by {difference:.2g}, more than {tolerance:g}: it was not written"
        )
