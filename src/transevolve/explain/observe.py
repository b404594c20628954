"""One text through a classifier, with all of it kept: X^l, attention, key drift, and what each depth would say.

Models trained with the `linear` backend show the attention that they approximate it by; all others the exact one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from ..core.errors import UserError
from ..data.encoding import encode
from ..evolution.attention import AttentionState
from ..evolution.backends.literal import LiteralEvolution
from ..evolution.block import EncoderBlock, EncoderDepth
from ..inference import load
from ..models.heads.classification import TransEvolveForSequenceClassification
from ..models.inputs import embed


class Step(NamedTuple):
    """The block and depth about to act on `x`, and the block's attention."""

    block: EncoderBlock
    number: int
    l: int
    x: Tensor
    state: AttentionState


@dataclass(frozen=True)
class Observation:
    """What was seen of one text of n tokens, at D depths of H heads.

    Args:
        depths: (block, depth within the block), both from 1.
        states: X^l before each depth, and after the last one before its layer norm: D+1 x n x d.
        attention: D x H x n x n, queries down, keys across.
        drift: b^l, less its mean over the keys: D x H x n. Zero where attention does not evolve.
        readout: Class probabilities, had the model stopped there: D+1 x classes.
        truncated: The text was longer than the model's limit, and was cut.
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
    """The TransEvolve classifier of a run folder, to be looked into."""

    def __init__(self, folder: Path):
        run = load(folder, "cpu")
        model = run.model
        if not isinstance(model, TransEvolveForSequenceClassification):
            kind = getattr(model.config, "system", type(model).__name__)
            raise UserError(f"{folder} holds a {kind}: explain shows how TransEvolve classifiers evolve, and no others")
        self.model = model
        self.tokenizer = run.tokenizer
        self.backend = "linear" if model.config.attention == "linear" else "literal"
        self.labels = list(run.kind.labels(model.config) or [])

    def ids(self, texts: list[str], limit: int | None = None) -> tuple[list[Tensor], int]:
        """Token ids of each text as a batch of one, and how many texts were cut."""
        longest = min(self.model.config.max_position_embeddings, limit or self.model.config.max_position_embeddings)
        encoded = encode(self.tokenizer, texts, longest, lambda i: f"text {i + 1}")
        return [torch.from_numpy(row.astype(np.int64))[None] for row in encoded.rows()], encoded.truncated

    def steps(self, ids: Tensor) -> Iterator[Step]:
        """Every depth, in order, before it acts; the last step is the end, with `l` one beyond the block."""
        encoder = self.model.model
        x = embed(encoder.embedding, ids, None)
        blocks = cast(list[EncoderBlock], list(encoder.encoder.blocks))
        for number, block in enumerate(blocks, start=1):
            state = block.attention.begin(x, backend=self.backend)
            for depth in cast(list[EncoderDepth], block.depths):
                yield Step(block, number, depth.l, x, state)
                x = depth(block.attention, state, x)
            if number == len(blocks):
                yield Step(block, number, len(block.depths) + 1, x, state)
            x = block.norm(x)

    def read_out(self, x: Tensor) -> Tensor:
        """Class probabilities of a state: the last block's norm, then the head."""
        last = cast(EncoderBlock, self.model.model.encoder.blocks[-1])
        return self.model.head(last.norm(x), None).float().softmax(-1)[0]

    @torch.inference_mode()
    def observe(self, text: str) -> Observation:
        (ids,), truncated = self.ids([text])
        *acting, end = self.steps(ids)
        return Observation(
            tokens=readable_tokens(self.tokenizer, ids[0].tolist()),
            labels=self.labels,
            depths=[(step.number, step.l) for step in acting],
            states=torch.stack([step.x[0] for step in [*acting, end]]).numpy(),
            attention=torch.stack([step.state.attention(step.l)[0] for step in acting]).numpy(),
            drift=torch.stack([_drift(step) for step in acting]).numpy(),
            readout=torch.stack([self.read_out(step.x) for step in [*acting, end]]).numpy(),
            truncated=bool(truncated),
        )


def _drift(step: Step) -> Tensor:
    """b^l of each head and key, less its mean over the keys, which softmax does not see."""
    initial = begun_literally(step).initial
    drift = initial.drift
    if drift is None:
        return torch.zeros(initial.heads, initial.keys.shape[1])
    drift = drift[step.l - 1, 0]
    return drift - drift.mean(-1, keepdim=True)


def begun_literally(step: Step) -> LiteralEvolution:
    """The literal evolution of the block that a step belongs to."""
    evolution = step.state.evolution
    if isinstance(evolution, LiteralEvolution):
        return evolution
    return LiteralEvolution(evolution.initial)  # pyright: ignore[reportAttributeAccessIssue]


def readable_tokens(tokenizer, ids: list[int]) -> list[str]:
    """Tokens as they are written; a blank is shown as ␣, and what is no whole character by the token's own name."""
    shown = []
    for token, number in zip(tokenizer.convert_ids_to_tokens(ids), ids, strict=True):
        text = tokenizer.backend_tokenizer.decode([number], skip_special_tokens=False)
        blank = "Ġ" in token and not text.startswith(" ")
        written = token if not text or "�" in text else ("␣" if blank else "") + text
        shown.append(written.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))
    return shown
