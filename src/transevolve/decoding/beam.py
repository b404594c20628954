"""The paper's beam search: hypotheses are ranked by log p / ((5 + length) / 6)^alpha, the end token counted.

    hypotheses = beam_search(model, input_ids, attention_mask, BeamOptions(beams=4, alpha=0.6, extra_length=50))
    ids = model.generate(**inputs, custom_generate=generate_beams, num_beams=4, max_new_tokens=200)

Each step considers the `2 * beams` best continuations of every sentence: those that end become hypotheses, the best
`beams` of the others continue. A sentence is done, and leaves the batch, when none of its beams can still become one of
its `n_best` hypotheses, or at its length limit.

Differs from the authors' code, so that a translation does not depend on the rest of the batch:

- the limit is the sentence's own length plus `extra_length`; theirs is that of the longest sentence in the batch;
- each sentence stops on its own. Theirs all continue until no beam of any sentence can beat its worst hypothesis, of
  which there may be one or four: an early stop may leave fillers of score -1e7 among the four, which a slower sentence
  in the batch may replace. All hypotheses found there are found here, in the same order; here there may be more;
- hypotheses cut off at the limit get the length penalty too (theirs do not), and are used only for a sentence without a
  finished one.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel
from transformers.generation.utils import GenerateBeamEncoderDecoderOutput

from .continuations import best_continuations
from .decoders import decoder_for


@dataclass(frozen=True)
class BeamOptions:
    """How to search.

    `extra_length` is how much longer than its source a translation may be (the paper: 50 En-De, 35 En-Fr);
    `max_new_tokens` also limits all sentences. No sentence ends before `min_new_tokens`.
    """

    beams: int = 4
    alpha: float = 0.6
    extra_length: int = 50
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    n_best: int = 1

    def __post_init__(self):
        if not 1 <= self.n_best <= self.beams:
            raise ValueError(f"{self.beams} beams give 1 to {self.beams} hypotheses, not n_best={self.n_best}")
        if self.extra_length < 1 or (self.max_new_tokens is not None and self.max_new_tokens < 1):
            raise ValueError("a translation needs room for one token: extra_length and max_new_tokens are at least 1")

    def penalty(self, length: Tensor | int) -> Tensor:
        """((5 + length) / 6)^alpha, by which a log-probability is divided."""
        return ((5.0 + torch.as_tensor(length)) / 6.0) ** self.alpha

    def limits(self, source_lengths: Tensor) -> Tensor:
        """The maximum number of tokens in the translation of each sentence."""
        limits = source_lengths + self.extra_length
        return limits if self.max_new_tokens is None else limits.clamp(max=self.max_new_tokens)


@dataclass(frozen=True)
class Hypothesis:
    """A translation: its tokens, the end token last unless it was cut off, and its length-penalised score."""

    ids: list[int]
    score: float
    finished: bool


@torch.no_grad()
def beam_search(
    model: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    options: BeamOptions | None = None,
    *,
    logits_processor: LogitsProcessorList | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence, or as many as there are, best first.

    `model` is any Hugging Face encoder-decoder in evaluation mode. Without a mask nothing is padding.
    """
    encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
    start, ends = _token(model, "decoder_start_token_id"), _token(model, "eos_token_id")
    if not start:
        raise ValueError("the model's configuration has no decoder_start_token_id, from which a search starts: set it")
    prompt = input_ids.new_full((input_ids.shape[0], 1), start[0])
    search = BeamSearch(model, encoded[0], attention_mask, prompt, ends, options or BeamOptions())
    return search.run(logits_processor)


def generate_beams(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList | None = None,
    stopping_criteria: Any = None,
    generation_config: GenerationConfig | None = None,
    alpha: float = 0.6,
    extra_length: int = 50,
    **model_kwargs,
) -> Tensor | GenerateBeamEncoderDecoderOutput:
    """The same search for `generate(custom_generate=generate_beams)`.

    Of the generation config it takes `num_beams`, `num_return_sequences`, `max_new_tokens`,
    `return_dict_in_generate`, the ids of end and padding, and all logits processors; not `max_length`.
    """
    assert generation_config is not None
    config, encoded, mask = generation_config, model_kwargs["encoder_outputs"], model_kwargs.get("attention_mask")
    beams = config.num_beams or 1
    memory = encoded[0]
    prompt = input_ids[::beams]
    if memory.shape[0] != prompt.shape[0]:
        memory, mask = memory[::beams], None if mask is None else mask[::beams]
    wanted = config.num_return_sequences or 1
    options = BeamOptions(beams, alpha, extra_length, config.max_new_tokens, 0, wanted)
    search = BeamSearch(model, memory, mask, prompt, _as_list(config.eos_token_id), options)
    ids, scores = _as_tensors(search.run(logits_processor), prompt, wanted, config.pad_token_id or 0)
    if config.return_dict_in_generate:
        cache = search.decoder.cache
        return GenerateBeamEncoderDecoderOutput(
            sequences=cast(LongTensor, ids), sequences_scores=cast(FloatTensor, scores), past_key_values=cache
        )
    return ids


def _as_tensors(found: list[list[Hypothesis]], prompt: Tensor, wanted: int, pad: int) -> tuple[Tensor, Tensor]:
    """Rows as `generate` returns them, `wanted` per sentence; missing ones are padding with score -inf."""
    rows = [h for own in found for h in [*own, *[Hypothesis([], -torch.inf, False)] * (wanted - len(own))]]
    longest = max(len(h.ids) for h in rows)
    ids = prompt.new_tensor([h.ids + [pad] * (longest - len(h.ids)) for h in rows])
    scores = torch.tensor([h.score for h in rows], device=prompt.device)
    return torch.cat([prompt.repeat_interleave(wanted, 0), ids], 1), scores


def _token(model: PreTrainedModel, name: str) -> list[int]:
    """Ids of a special token, from the generation config or else from the model's."""
    return _as_list(getattr(model.generation_config, name, None)) or _as_list(getattr(model.config, name, None))


def _as_list(ids: int | list[int] | Tensor | None) -> list[int]:
    return [] if ids is None else torch.as_tensor(ids).reshape(-1).tolist()


class BeamSearch:
    """A search from an encoded source and the first tokens of each translation.

    Its tensors hold the sentences that are not done: row s is sentence `origin[s]`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        memory: Tensor,
        attention_mask: Tensor | None,
        prompt: Tensor,
        ends: list[int],
        options: BeamOptions,
    ):
        sentences, device = prompt.shape[0], prompt.device
        whole = prompt.new_full((sentences,), memory.shape[1])
        self.options = options
        self.limits = options.limits(whole if attention_mask is None else attention_mask.sum(1))
        self.decoder = decoder_for(model, memory, attention_mask, prompt.shape[1] + int(self.limits.max()) - 1)
        self.origin = torch.arange(sentences, device=device)
        self.ends = torch.tensor(ends, dtype=torch.long, device=device)
        self.sequences = prompt[:, None]
        self.prompt = prompt.shape[1]
        self.scores = torch.zeros(sentences, 1, device=device)
        self.found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.worst_kept = torch.full((sentences,), -torch.inf, device=device)

    def run(self, logits_processor: LogitsProcessorList | None = None) -> list[list[Hypothesis]]:
        """Processors change log-probabilities, as in Hugging Face's beam search."""
        tokens = self.sequences[:, 0]
        while True:
            log_p = self.decoder.advance(tokens).float().log_softmax(-1)
            if logits_processor:
                rows = cast(LongTensor, self.sequences.flatten(0, 1))
                log_p = logits_processor(rows, cast(FloatTensor, log_p))
            parents = self._step(log_p.unflatten(0, (len(self.origin), -1)))
            done = self._done()
            if bool(done.all()):
                self._leave(done)
                return self.found
            self.decoder.reorder(parents)
            if bool(done.any()):
                self.decoder.select(self._leave(done), self.options.beams)
            tokens = self.sequences[:, :, -1].reshape(-1, 1)

    def _step(self, log_p: Tensor) -> Tensor:
        """Extends every beam by a token; returns the flat row of each continuing beam's parent."""
        beams = self.options.beams
        new = self.sequences.shape[2] - self.prompt + 1
        if new <= self.options.min_new_tokens and len(self.ends):
            log_p[..., self.ends] = -torch.inf
        count = beams * (1 + max(1, len(self.ends)))
        vocab = log_p.shape[2]
        if vocab < count:
            raise ValueError(f"{beams} beams need a vocabulary of at least {count} tokens, this model's has {vocab}")
        totals, parents, tokens = best_continuations(log_p, self.scores, count)
        ended = torch.isin(tokens, self.ends) if len(self.ends) else torch.zeros_like(tokens, dtype=torch.bool)
        self._finish(totals, parents, tokens, ended & (totals > -torch.inf), new)
        self.scores, going = totals.masked_fill(ended, -torch.inf).topk(beams)
        parents, tokens = parents.gather(1, going), tokens.gather(1, going)
        width = self.sequences.shape[1]
        past = self.sequences.gather(1, parents[..., None].expand(-1, -1, self.sequences.shape[2]))
        self.sequences = torch.cat([past, tokens[..., None]], 2)
        return (torch.arange(len(parents), device=parents.device)[:, None] * width + parents).flatten()

    def _finish(self, totals: Tensor, parents: Tensor, tokens: Tensor, ended: Tensor, length: int) -> None:
        """Continuations that end become hypotheses; only the best `beams` of a sentence are kept."""
        penalty = float(self.options.penalty(length))
        for s, c in ended.nonzero().tolist():
            ids = [*self.sequences[s, parents[s, c], self.prompt :].tolist(), int(tokens[s, c])]
            own = self.found[int(self.origin[s])]
            own.append(Hypothesis(ids, float(totals[s, c]) / penalty, True))
            own.sort(key=lambda h: -h.score)
            del own[self.options.beams :]
            if len(own) >= self.options.n_best:
                self.worst_kept[s] = own[self.options.n_best - 1].score

    def _done(self) -> Tensor:
        """Which sentences are at their limit, or have hypotheses that no beam can still beat.

        Log-probabilities only fall, so a beam's best possible score is its current one under the mildest later penalty.
        """
        new = self.sequences.shape[2] - self.prompt
        mildest = torch.maximum(self.options.penalty(new + 1), self.options.penalty(self.limits))
        return (new >= self.limits) | (self.worst_kept > self.scores[:, 0] / mildest)

    def _leave(self, done: Tensor) -> Tensor:
        """Removes sentences that are done; returns the rows of those that remain."""
        for s in done.nonzero().flatten().tolist():
            own = self.found[int(self.origin[s])]
            if not own:
                penalty = float(self.options.penalty(self.sequences.shape[2] - self.prompt))
                cut = zip(self.sequences[s, :, self.prompt :].tolist(), self.scores[s].tolist(), strict=True)
                own.extend(Hypothesis(ids, score / penalty, False) for ids, score in cut if score > -torch.inf)
            del own[self.options.n_best :]
        rest = (~done).nonzero().flatten()
        self.origin, self.limits, self.worst_kept = self.origin[rest], self.limits[rest], self.worst_kept[rest]
        self.sequences, self.scores = self.sequences[rest], self.scores[rest]
        return rest
