"""A classifier as exporters want it: two tensors in, logits out; and batches to check an exported one with."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..core.errors import UserError
from ..evolution.attention import EvolvedAttention
from ..models.config import TransEvolveConfig
from ..runs.folder import load_run_model

Forward = Callable[[Tensor, Tensor], Tensor]
TOLERANCE = 1e-4
CHECKED = ((1, 1), (1, 7), (2, 16), (3, 33), (2, 128))


class Logits(nn.Module):
    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def load_logits(folder: Path, backend: str | None = None) -> Logits:
    """The run's classifier; `backend` replaces that of exact attentions, which all compute the same."""
    model = load_run_model(folder)
    for module in model.modules():
        if backend is not None and isinstance(module, EvolvedAttention) and module.backend.exact:
            module.backend = backend
    return Logits(model).eval()


def length_limit(config: PreTrainedConfig) -> int | None:
    """TransEvolve computes positions for any length; other systems may be bound to the one they were built for."""
    return None if isinstance(config, TransEvolveConfig) else config.max_position_embeddings


def dynamic_shapes() -> dict[str, dict[int, torch.export.Dim]]:
    """Any batch, any length, the same for both inputs."""
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    return {"input_ids": shape, "attention_mask": shape}


def sample(rows: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    """Ids and a mask that pads every row but the first by one token more than the row before."""
    generator = torch.Generator().manual_seed(1000 * rows + length)
    ids = torch.randint(0, vocab, (rows, length), generator=generator)
    lengths = (length - torch.arange(rows)).clamp(min=1)
    return ids, (torch.arange(length) < lengths[:, None]).long()


def largest_difference(expected: Forward, found: Forward, config: PreTrainedConfig) -> float:
    """Over logits of batches of several shapes, padded and not."""
    worst, limit = 0.0, length_limit(config)
    with torch.inference_mode():
        for rows, length in CHECKED:
            batch = sample(rows, min(length, limit or length), config.vocab_size)
            worst = max(worst, float((expected(*batch) - found(*batch)).abs().max()))
    return worst


def require_equal(difference: float, what: str) -> None:
    """NaN is not equal either."""
    if not difference <= TOLERANCE:
        raise UserError(
            f"{what} differs from the model by {difference:.2g}, more than {TOLERANCE:g}: it was not written"
        )
