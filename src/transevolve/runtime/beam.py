"""The beam search of `transevolve.decoding` in numpy, for a decoder that returns the best tokens of each beam."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np


@dataclass(frozen=True)
class Search:
    """Options of beam search; the fields are those of `transevolve.decoding.BeamOptions`."""

    beams: int = 4
    alpha: float = 0.6
    extra_length: int = 50
    n_best: int = 1

    def penalty(self, length: np.ndarray | int) -> np.ndarray:
        return ((np.float32(5.0) + np.asarray(length, np.float32)) / np.float32(6.0)) ** np.float32(self.alpha)


class Hypothesis(NamedTuple):
    ids: list[int]
    score: float


class Decoder(Protocol):
    """Decodes one token per beam; there is one beam per sentence until the first `reorder`."""

    def advance(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Appends tokens (sentences x beams); returns log-probabilities and ids of the best next tokens, best first."""
        ...

    def reorder(self, parents: np.ndarray) -> None:
        """Beam b of sentence s continues its beam `parents[s, b]`."""
        ...

    def select(self, sentences: np.ndarray) -> None:
        """Keeps only these sentences."""
        ...


def beam_search(
    decoder: Decoder, lengths: np.ndarray, start: int, ends: list[int], search: Search
) -> list[list[Hypothesis]]:
    """Returns the `n_best` hypotheses of each sentence, best first; `lengths` are those of the sources."""
    count, origin = len(lengths), np.arange(len(lengths))
    limits = lengths + search.extra_length
    sequences, scores = np.full((count, 1, 1), start), np.zeros((count, 1), np.float32)
    worst = np.full(count, -np.inf, np.float32)
    found: list[list[Hypothesis]] = [[] for _ in lengths]
    while True:
        totals, parents, tokens = _best(*decoder.advance(sequences[:, :, -1]), scores, search.beams, len(ends))
        length = sequences.shape[2]
        ended = np.isin(tokens, ends) & (totals > -np.inf)
        for s, c in np.argwhere(ended):
            own, ids = found[int(origin[s])], [*sequences[s, parents[s, c], 1:].tolist(), int(tokens[s, c])]
            own.append(Hypothesis(ids, float(totals[s, c] / search.penalty(length))))
            own.sort(key=lambda h: -h.score)
            del own[search.beams :]
            if len(own) >= search.n_best:
                worst[s] = own[search.n_best - 1].score
        totals = np.where(np.isin(tokens, ends), np.float32(-np.inf), totals)
        going = np.argsort(-totals, axis=1, kind="stable")[:, : search.beams]
        scores, parents, tokens = (np.take_along_axis(x, going, 1) for x in (totals, parents, tokens))
        past = np.take_along_axis(sequences, parents[..., None], 1)
        sequences = np.concatenate([past, tokens[..., None]], 2)
        penalty = np.maximum(search.penalty(length + 1), search.penalty(limits))
        done = (length >= limits) | (worst > scores[:, 0] / penalty)
        for s in np.flatnonzero(done):
            own = found[origin[s]]
            if not own:
                cut = zip(sequences[s, :, 1:].tolist(), scores[s], strict=True)
                own.extend(Hypothesis(i, float(x / search.penalty(length))) for i, x in cut if x > -np.inf)
            del own[search.n_best :]
        if done.all():
            return found
        decoder.reorder(parents)
        if done.any():
            rest = np.flatnonzero(~done)
            decoder.select(rest)
            origin, limits, worst, sequences, scores = (x[rest] for x in (origin, limits, worst, sequences, scores))


def _best(
    values: np.ndarray, ids: np.ndarray, scores: np.ndarray, beams: int, ends: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns scores, beams and tokens of the best continuations of each sentence, best first."""
    count = beams * (1 + max(1, ends))
    if values.shape[2] < count:
        raise ValueError(f"{beams} beams need the {count} best tokens, but the decoder returns {values.shape[2]}")
    totals = (values[..., :count] + scores[..., None]).reshape(len(scores), -1)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :count]
    tokens = ids[..., :count].reshape(len(scores), -1)
    return np.take_along_axis(totals, order, 1), order // count, np.take_along_axis(tokens, order, 1)
