"""Records X^l, attention, key drift and readout of each depth while a classifier processes a text.

Models with an approximate backend show its approximation of attention; all others the exact matrix.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..core.errors import UserError
from ..data.encoding import encode
from ..evolution.attention import AttentionState, EvolvedAttention
from ..evolution.backends import Evolution
from ..evolution.block import EncoderBlock, Trace
from ..inference import load
from ..models.heads.classification import TransEvolveForSequenceClassification
from ..models.inputs import embed, key_padding_mask


class Step(NamedTuple):
    """Depth `l` of block `number` is about to act on `x`; the last step has `l` one beyond the block."""

    block: EncoderBlock
    number: int
    l: int
    x: Tensor
    state: AttentionState


@dataclass
class Steps(Trace):
    """Every depth of a stack, in order, before it acts, and the end of the last block."""

    steps: list[Step] = field(default_factory=list)
    number: int = 0
    last: Step | None = None

    def depth(self, block: nn.Module, l: int, x: Tensor, state: AttentionState, cross: AttentionState | None) -> None:
        self.number += l == 1
        self.steps.append(Step(cast(EncoderBlock, block), self.number, l, x, state))

    def end(self, block: nn.Module, x: Tensor, state: AttentionState) -> None:
        self.last = Step(cast(EncoderBlock, block), self.number, state.depth + 1, x, state)


@dataclass(frozen=True)
class Observation:
    """Observations of one text of n tokens, at D depths with H heads.

    Args:
        depths: (block, depth within the block), both from 1.
        states: X^l before each depth, and after the last one before its layer norm: D+1 x n x d.
        attention: D x H x n x n, queries down, keys across.
        drift: b^l, less its mean over the keys: D x H x n. Zero if attention does not evolve.
        readout: Class probabilities, had the model stopped there: D+1 x classes.
        truncated: Whether the text was truncated to the model's limit.
    """

    tokens: list[str]
    labels: list[str]
    depths: list[tuple[int, int]]
    states: np.ndarray
    attention: np.ndarray
    drift: np.ndarray
    readout: np.ndarray
    truncated: bool

    @property
    def prediction(self) -> int:
        return int(self.readout[-1].argmax())


class Observer:
    """The TransEvolve classifier of a run folder, ready to be observed."""

    def __init__(self, folder: Path, device: str | torch.device = "cpu"):
        run = load(folder, device)
        model = run.model
        if not isinstance(model, TransEvolveForSequenceClassification):
            kind = getattr(model.config, "system", type(model).__name__)
            raise UserError(f"{folder} contains a {kind}: explain supports only TransEvolve classifiers")
        if not run.kind.explained:
            raise UserError(f"{folder} is {run.kind.noun}: explain shows class probabilities, which it does not have")
        self.model = model
        self.tokenizer = run.tokenizer
        self.exact = model.config.backend().exact
        for module in model.modules():
            if self.exact and isinstance(module, EvolvedAttention):
                module.backend = "literal"
        self.several = model.config.problem_type == "multi_label_classification"
        self.labels = list(run.kind.labels(model.config) or [])

    def ids(self, texts: list[str], limit: int | None = None) -> tuple[list[Tensor], int]:
        """Token ids of each text as a batch of one, and the number of truncated texts."""
        longest = min(self.model.config.max_position_embeddings, limit or self.model.config.max_position_embeddings)
        encoded = encode(self.tokenizer, texts, longest, lambda i: f"text {i + 1}")
        rows = [torch.from_numpy(row.astype(np.int64))[None].to(self.model.device) for row in encoded.rows()]
        return rows, encoded.truncated

    def steps(self, ids: Tensor) -> list[Step]:
        """Every depth, in order, before it acts; then the end, with `l` one beyond the last block."""
        encoder, trace = self.model.model, Steps()
        encoder.encoder(embed(encoder.embedding, ids, None), self.ignored(ids), trace=trace)
        assert trace.last is not None
        return [*trace.steps, trace.last]

    def ignored(self, ids: Tensor) -> Tensor | None:
        """True at tokens that the model ignores."""
        return key_padding_mask(self.model.model.embedding, ids, None, ids.shape)

    def read_out(self, x: Tensor, ids: Tensor) -> Tensor:
        """Class probabilities of a state: the last block's norm, then the head."""
        last = cast(EncoderBlock, self.model.model.encoder.blocks[-1])
        logits = self.model.head(last.norm(x), self.ignored(ids), ids).float()[0]
        return logits.sigmoid() if self.several else logits.softmax(-1)

    @torch.inference_mode()
    def observe(self, text: str) -> Observation:
        (ids,), truncated = self.ids([text])
        *acting, end = self.steps(ids)
        return Observation(
            tokens=readable_tokens(self.tokenizer, ids[0].tolist()),
            labels=self.labels,
            depths=[(step.number, step.l) for step in acting],
            states=torch.stack([step.x[0] for step in [*acting, end]]).cpu().numpy(),
            attention=torch.stack([step.state.attention(step.l)[0] for step in acting]).cpu().numpy(),
            drift=torch.stack([_drift(step) for step in acting]).cpu().numpy(),
            readout=torch.stack([self.read_out(step.x, ids) for step in [*acting, end]]).cpu().numpy(),
            truncated=bool(truncated),
        )


def _drift(step: Step) -> Tensor:
    """b^l of each head and key, less its mean over the keys, which softmax ignores."""
    initial = cast(Evolution, step.state.evolution).initial
    drift = initial.drift
    if drift is None:
        return torch.zeros(initial.heads, initial.keys.shape[1], device=initial.keys.device)
    drift = drift[step.l - 1, 0]
    return drift - drift.mean(-1, keepdim=True)


def readable_tokens(tokenizer, ids: list[int]) -> list[str]:
    """The text of each token; a space is shown as ␣, and an incomplete character as the token's name."""
    shown = []
    for token, number in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True):
        text = tokenizer.backend_tokenizer.decode([number], skip_special_tokens=False)
        blank = "Ġ" in token and not text.startswith(" ")
        written = token if not text or "�" in text else ("␣" if blank else "") + text
        shown.append(written.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))
    return shown
