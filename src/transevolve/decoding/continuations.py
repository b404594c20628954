"""The best continuations of all beams: a few out of `beams x vocabulary` candidates per sentence."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 128


def fast_topk(x: Float[Tensor, "rows n"], count: int) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """`topk`, several times faster for long rows: the largest values are in the chunks with the largest maxima."""
    rows, n = x.shape
    chunks = n // CHUNK
    if chunks <= 2 * count:
        return x.topk(count)
    whole = x[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    places = whole.amax(-1).topk(count).indices
    index = (places[..., None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(1)
    rest = torch.arange(chunks * CHUNK, n, device=x.device)
    index = torch.cat([index, rest.expand(rows, -1)], 1)
    values, at = x.gather(1, index).topk(count)
    return values, index.gather(1, at)


def best_continuations(
    log_p: Float[Tensor, "sentences beams vocab"], scores: Float[Tensor, "sentences beams"], count: int
) -> tuple[Float[Tensor, "sentences count"], Int[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """Returns log-probabilities, beams and tokens of the `count` best continuations of each sentence, best first."""
    sentences, beams, _ = log_p.shape
    values, tokens = fast_topk(log_p.flatten(0, 1), count)
    totals = values.view(sentences, beams, count) + scores[..., None]
    best, at = totals.flatten(1).topk(count)
    return best, at // count, tokens.view(sentences, -1).gather(1, at)
