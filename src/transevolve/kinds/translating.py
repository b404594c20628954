"""Scoring and losses of translation in training: token loss, and BLEU of what is decoded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from torch import Tensor, distributed
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ..decoding import BeamOptions
from ..decoding.translator import translate_ids
from ..metrics import score
from ..metrics.classification import scoring_loader
from ..models.loss import smoothed_cross_entropy

if TYPE_CHECKING:
    from datasets import Dataset


def smoothed_loss(smoothing: float) -> Callable[..., Tensor]:
    """The paper's loss, for models that would compute another."""

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        return smoothed_cross_entropy(outputs.logits, labels, smoothing, num_items_in_batch)

    return loss


@torch.inference_mode()
def token_loss(
    model: PreTrainedModel, rows: "Dataset", tokenizer: PreTrainedTokenizerFast, tokens: int, state: PartialState
) -> float:
    """Cross entropy of a target token, without smoothing."""
    loader = scoring_loader(
        rows, tokenizer.pad_token_id or 0, tokens, state.process_index, state.num_processes, start(model)
    )
    sums = torch.zeros(2, dtype=torch.float64)
    for batch in loader:
        labels = batch.pop("labels").to(state.device)
        logits = model(**{name: value.to(state.device) for name, value in batch.items()}).logits
        real = int((labels != -100).sum())
        if real:
            sums += torch.tensor([float(smoothed_cross_entropy(logits, labels, 0.0, 1)), real], dtype=torch.float64)
    if state.num_processes > 1:
        sums = sums.to(state.device)
        distributed.all_reduce(sums)
    return float(sums[0] / sums[1])


def score_translation(
    model: PreTrainedModel,
    rows: "Dataset",
    tokenizer: PreTrainedTokenizerFast,
    *,
    beams: int,
    extra_length: int,
    tokens: int,
    state: PartialState,
) -> dict[str, float]:
    """Token loss, BLEU and chrF; each process decodes its share of the sentences."""
    training = model.training
    model.eval()
    loss = token_loss(model, rows, tokenizer, tokens, state)
    sources = rows["input_ids"][:][state.process_index :: state.num_processes]
    options = BeamOptions(beams=beams, extra_length=extra_length)
    texts = [found[0].text for found in translate_ids(model, tokenizer, sources, options, tokens // max(beams, 1))]
    if state.num_processes > 1:
        shares: list[Any] = [None] * state.num_processes
        distributed.all_gather_object(shares, texts)
        merged = [""] * len(rows)
        for process, share in enumerate(shares):
            merged[process :: state.num_processes] = share
        texts = merged
    found = score(texts, rows["target"][:])
    model.train(training)
    return {"loss": loss, "bleu": found.bleu, "chrf": found.chrf}


def start(model: PreTrainedModel) -> int:
    token = model.config.decoder_start_token_id
    assert token is not None
    return token
