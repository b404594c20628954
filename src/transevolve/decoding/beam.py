"""The paper's beam search: hypotheses are ranked by log p / ((5 + length) / 6)^alpha, with the end token in the length.

    hypotheses = beam_search(model, input_ids, attention_mask, BeamOptions(beams=4, alpha=0.6, extra_length=50))
    ids = model.generate(**inputs, custom_generate=generate_beams, num_beams=4, max_new_tokens=200)

Each step considers the `2 * beams` best continuations of every sentence: those that end become hypotheses, the best
`beams` of the others continue. A sentence is removed from the batch when none of its beams can still become one of its
`n_best` hypotheses, or at its length limit.

Differs from the authors' code, so that a translation does not depend on the rest of the batch:

- The limit is the length of the sentence plus `extra_length`; theirs uses the longest sentence in the batch.
- Each sentence stops independently. Theirs continue until no beam of any sentence can beat its worst hypothesis. If
  they stop early, some of the four hypotheses may be placeholders with a score of -1e7; whether these are replaced
  depends on the other sentences. All hypotheses found there are found here, in the same order; there may be more here.
- Hypotheses cut off at the limit also get the length penalty (theirs do not), and are used only for sentences without a
  finished hypothesis.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import FloatTensor, LongTensor, Tensor
from transformers import GenerationConfig, PreTrainedModel

from .continuations import best_continuations

if TYPE_CHECKING:
    from transformers import LogitsProcessorList
    from transformers.generation.utils import GenerateBeamEncoderDecoderOutput


@dataclass(frozen=True)
class BeamOptions:
    """Options of beam search.

    A translation may be `extra_length` tokens longer than its source (the paper: 50 En-De, 35 En-Fr), and has at most
    `max_new_tokens` and at least `min_new_tokens` tokens.
    """

    beams: int = 4
    alpha: float = 0.6
    extra_length: int = 50
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    n_best: int = 1

    def __post_init__(self):
        if not 1 <= self.n_best <= self.beams:
            raise ValueError(f"n_best must be between 1 and beams={self.beams}, got {self.n_best}")
        if self.extra_length < 1 or (self.max_new_tokens is not None and self.max_new_tokens < 1):
            raise ValueError("extra_length and max_new_tokens must be at least 1")

    def penalty(self, length: Tensor | int) -> Tensor:
        """Returns ((5 + length) / 6)^alpha, which divides log-probabilities."""
        return ((5.0 + torch.as_tensor(length)) / 6.0) ** self.alpha

    def limits(self, source_lengths: Tensor) -> Tensor:
        """Returns the maximum number of tokens in the translation of each sentence."""
        limits = source_lengths + self.extra_length
        return limits if self.max_new_tokens is None else limits.clamp(max=self.max_new_tokens)


@dataclass(frozen=True)
class Hypothesis:
    """A translation: its token ids, with the end token unless it was cut off, and its length-penalized score."""

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
    logits_processor: "LogitsProcessorList | None" = None,
) -> list[list[Hypothesis]]:
    """Returns the hypotheses of each sentence, at most `n_best`, best first.

    `model` is any Hugging Face encoder-decoder in evaluation mode. Without a mask, no token is padding.
    """
    encoded = model.get_encoder()(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)
    start, ends = _special_ids(model, "decoder_start_token_id"), _special_ids(model, "eos_token_id")
    if not start:
        raise ValueError("set decoder_start_token_id in the model's configuration: beam search starts with it")
    prompt = input_ids.new_full((input_ids.shape[0], 1), start[0])
    search = BeamSearch(model, encoded[0], attention_mask, prompt, ends, options or BeamOptions())
    return search.run(logits_processor)


def generate_beams(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: "LogitsProcessorList | None" = None,
    stopping_criteria: Any = None,
    generation_config: GenerationConfig | None = None,
    alpha: float = BeamOptions.alpha,
    extra_length: int = BeamOptions.extra_length,
    **model_kwargs,
) -> "Tensor | GenerateBeamEncoderDecoderOutput":
    """Beam search for `generate(custom_generate=generate_beams)`.

    Uses `num_beams`, `num_return_sequences`, `max_new_tokens`, `return_dict_in_generate` and the end and padding ids of
    the generation config, and all logits processors. `max_length` is ignored.
    """
    assert generation_config is not None
    config, encoded, mask = generation_config, model_kwargs["encoder_outputs"], model_kwargs.get("attention_mask")
    beams = config.num_beams or 1
    memory = encoded[0]
    prompt = input_ids[::beams]
    if memory.shape[0] != prompt.shape[0]:
        memory, mask = memory[::beams], None if mask is None else mask[::beams]
    n_best = config.num_return_sequences or 1
    options = BeamOptions(beams, alpha, extra_length, config.max_new_tokens, 0, n_best)
    search = BeamSearch(model, memory, mask, prompt, _as_list(config.eos_token_id), options)
    ids, scores = _as_tensors(search.run(logits_processor), prompt, n_best, config.pad_token_id or 0)
    if config.return_dict_in_generate:
        from transformers.generation.utils import GenerateBeamEncoderDecoderOutput

        cache = search.decoder.cache
        return GenerateBeamEncoderDecoderOutput(
            sequences=cast(LongTensor, ids), sequences_scores=cast(FloatTensor, scores), past_key_values=cache
        )
    return ids


def _as_tensors(found: list[list[Hypothesis]], prompt: Tensor, n_best: int, pad: int) -> tuple[Tensor, Tensor]:
    """Returns rows in the format of `generate`, `n_best` per sentence; missing ones are padding with score -inf."""
    rows = [h for own in found for h in [*own, *[Hypothesis([], -torch.inf, False)] * (n_best - len(own))]]
    longest = max(len(h.ids) for h in rows)
    ids = prompt.new_tensor([h.ids + [pad] * (longest - len(h.ids)) for h in rows])
    scores = torch.tensor([h.score for h in rows], device=prompt.device)
    return torch.cat([prompt.repeat_interleave(n_best, 0), ids], 1), scores


def _log_softmax(logits: Tensor) -> Tensor:
    """Overwrites logits that are on a CPU: there a new tensor of this size takes longer than the exponentials."""
    return torch.log_softmax(logits, -1, out=logits if logits.device.type == "cpu" else None)


def _special_ids(model: PreTrainedModel, name: str) -> list[int]:
    """Returns the ids of a special token, from the generation config or else from the model's config."""
    return _as_list(getattr(model.generation_config, name, None)) or _as_list(getattr(model.config, name, None))


def _as_list(ids: int | list[int] | Tensor | None) -> list[int]:
    return [] if ids is None else torch.as_tensor(ids).reshape(-1).tolist()


class BeamSearch:
    """Beam search from an encoded source and the first tokens of each translation.

    Its tensors contain only the sentences that are not done: row s is sentence `origin[s]`.
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
        from .decoders import decoder_for

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

    def run(self, logits_processor: "LogitsProcessorList | None" = None) -> list[list[Hypothesis]]:
        """Returns the hypotheses. Processors get log-probabilities, as in Hugging Face's beam search."""
        tokens = self.sequences[:, 0]
        while True:
            log_p = _log_softmax(self.decoder.advance(tokens).float())
            if logits_processor:
                rows = cast(LongTensor, self.sequences.flatten(0, 1))
                log_p = logits_processor(rows, cast(FloatTensor, log_p))
            parents = self._step(log_p.unflatten(0, (len(self.origin), -1)))
            done = self._done()
            if bool(done.all()):
                self._remove(done)
                return self.found
            self.decoder.reorder(parents)
            if bool(done.any()):
                self.decoder.select(self._remove(done), self.options.beams)
            tokens = self.sequences[:, :, -1].reshape(-1, 1)

    def _step(self, log_p: Tensor) -> Tensor:
        """Extends every beam by a token; returns the row of each new beam's parent."""
        beams = self.options.beams
        new = self.sequences.shape[2] - self.prompt + 1
        if new <= self.options.min_new_tokens and len(self.ends):
            log_p[..., self.ends] = -torch.inf
        count = beams * (1 + max(1, len(self.ends)))
        vocab = log_p.shape[2]
        if vocab < count:
            raise ValueError(f"{beams} beams need a vocabulary of at least {count} tokens, got {vocab}")
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
        """Adds continuations that end to the hypotheses; keeps the best `beams` of each sentence."""
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
        """Returns which sentences are at their limit, or have hypotheses that no beam can beat.

        Log-probabilities only decrease, so the best possible score of a beam is its current log-probability divided by
        the largest later penalty.
        """
        new = self.sequences.shape[2] - self.prompt
        penalty = torch.maximum(self.options.penalty(new + 1), self.options.penalty(self.limits))
        return (new >= self.limits) | (self.worst_kept > self.scores[:, 0] / penalty)

    def _remove(self, done: Tensor) -> Tensor:
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
