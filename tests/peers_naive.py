"""Naive implementations of every system for one sequence without padding: token by token, with whole matrices."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import elu

from transevolve.peers import Mixer


def naive(system: str, mixer: Mixer, x: Tensor, causal: bool) -> Tensor:
    """(n, d) -> (n, d)."""
    return NAIVE[system](mixer, x, causal)


def by_head(mixer: Mixer, x: Tensor) -> list[Tensor]:
    """(n, d) -> one (n, part) for each head."""
    return list(x.split(mixer.shape.part, -1))


def projected(mixer: Mixer, x: Tensor) -> list[tuple[Tensor, ...]]:
    """Queries, keys and values of each head."""
    weights = mixer.projections.weight.chunk(3)
    return list(zip(*(by_head(mixer, x @ w.mT) for w in weights), strict=True))


def joined(mixer: Mixer, heads: list[Tensor]) -> Tensor:
    return torch.cat(heads, -1) @ mixer.output.weight.mT


def attend(scores: Tensor, v: Tensor, visible: Tensor | None = None) -> Tensor:
    """A row that sees nothing gives zeros."""
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0) @ v


def lower(n: int, causal: bool) -> Tensor:
    whole = torch.ones(n, n, dtype=torch.bool)
    return whole.tril() if causal else whole


def transformer(mixer, x, causal):
    n = len(x)
    heads = [attend(q @ k.mT / math.sqrt(q.shape[1]), v, lower(n, causal)) for q, k, v in projected(mixer, x)]
    return joined(mixer, heads)


def linformer(mixer, x, causal):
    e, f = mixer.length_projections[:, :, : len(x)]
    return joined(mixer, [attend(q @ (e @ k).mT / math.sqrt(q.shape[1]), f @ v) for q, k, v in projected(mixer, x)])


def lazyformer(mixer, x, causal):
    q, k = (x @ w.mT for w in mixer.query_key.weight.chunk(2))
    parts = zip(*(by_head(mixer, t) for t in (q, k, x @ mixer.value.weight.mT)), strict=True)
    heads = [attend(q @ k.mT / math.sqrt(q.shape[1]), v, lower(len(x), causal)) for q, k, v in parts]
    return joined(mixer, heads)


def kernel(similarity: Callable[[Mixer, int, Tensor, Tensor], Tensor], least: float = 0.0):
    """Attention by an explicit matrix of similarities."""

    def run(mixer, x, causal):
        heads = []
        for h, (q, k, v) in enumerate(projected(mixer, x)):
            matrix = similarity(mixer, h, q, k) * lower(len(x), causal)
            seen = lower(len(x), causal).sum(-1, keepdim=True, dtype=x.dtype)
            heads.append(matrix @ v / matrix.sum(-1, keepdim=True).maximum(least * seen))
        return joined(mixer, heads)

    return run


def elu_kernel(mixer, h, q, k):
    return (elu(q) + 1) @ (elu(k) + 1).mT


def positive_kernel(mixer, h, q, k):
    def features(t):
        t = t * t.shape[1] ** -0.25
        log = t @ mixer.directions.mT - t.square().sum(-1, keepdim=True) / 2
        highest = log.detach().amax(-1, keepdim=True)
        return torch.exp(log) + 1e-6 * torch.exp(highest)

    return features(q) @ features(k).mT


def gaussian_kernel(mixer, h, q, k):
    """The mean over directions w of cos(w . (q' - k'))."""
    q, k = (t / t.norm(dim=-1, keepdim=True) * mixer.sigma[h] for t in (q, k))
    return torch.cos((q[:, None] - k[None]) @ mixer.directions.mT).mean(-1)


def synthesizer(mixer, x, causal):
    n, heads = len(x), []
    for h, v in enumerate(by_head(mixer, x @ mixer.value.weight.mT)):
        if hasattr(mixer, "rows"):
            left = mixer.rows[h, :n]
        else:
            left = torch.relu(by_head(mixer, x @ mixer.hidden.weight.mT)[h])
        heads.append(attend(left @ mixer.positions[h, :n].mT, v, lower(n, causal)))
    return joined(mixer, heads)


def by_pattern(pattern: Callable[[Mixer, int, int, int], Callable[[int, int], bool]]):
    """Softmax attention over the keys j that `pattern(mixer, head, n)` lets query i see."""

    def run(mixer, x, causal):
        n, heads = len(x), []
        for h, (q, k, v) in enumerate(projected(mixer, x)):
            sees = pattern(mixer, h, n)
            visible = torch.tensor([[sees(i, j) and (j <= i or not causal) for j in range(n)] for i in range(n)])
            heads.append(attend(q @ k.mT / math.sqrt(q.shape[1]), v, visible))
        return joined(mixer, heads)

    return run


def sparse_pattern(mixer, h, n):
    l, c, near = mixer.block, mixer.summaries, h < mixer.shape.num_heads // 2
    if mixer.pattern == "strided":
        return (lambda i, j: abs(i - j) < l) if near else (lambda i, j: (i - j) % l == 0)
    return (lambda i, j: i // l == j // l) if near else (lambda i, j: j % l == 0 or j % l >= l - c)


def bigbird_pattern(mixer, h, n):
    l, g = mixer.block, mixer.global_blocks
    blocks = -(-n // l)
    random, found = mixer.draw(torch.ones(1, blocks, dtype=torch.bool)) if blocks > g else (None, None)

    def sees(i, j):
        a, b = i // l, j // l
        if a < g or b < g or abs(a - b) <= 1:
            return True
        return b in random[0, h, a - g][found[0, h, a - g]].tolist()

    return sees


def sinkhorn(mixer, x, causal):
    n, l, heads = len(x), mixer.block, []
    starts = range(0, n, l)
    for h, (q, k, v) in enumerate(projected(mixer, x)):
        sums = torch.stack([k[s : s + l].sum(0) for s in starts])
        order = torch.exp(sums @ mixer.places[h, :, : len(starts)] / 0.75)
        for _ in range(mixer.iterations):
            order = order / order.sum(1, keepdim=True)
            order = order / order.sum(0, keepdim=True)
        rows = []
        for place, s in enumerate(starts):
            slots = range(min(l, n))
            mixtures = [
                torch.stack(
                    [sum(order[i, place] * t[o + slot] for i, o in enumerate(starts) if o + slot < n) for slot in slots]
                )
                for t in (k, v)
            ]
            keys, values = (torch.cat([t[s : s + l], m]) for t, m in zip((k, v), mixtures, strict=True))
            rows.append(attend(q[s : s + l] @ keys.mT / math.sqrt(q.shape[1]), values))
        heads.append(torch.cat(rows))
    return joined(mixer, heads)


def reformer(mixer, x, causal):
    n, chunk, heads = len(x), mixer.chunk, []
    used = min(max(1, -(-n // (2 * chunk))), mixer.directions.shape[-1])
    queries, values = (by_head(mixer, x @ m.weight.mT) for m in (mixer.query, mixer.value))
    for h, (q, v) in enumerate(zip(queries, values, strict=True)):
        k = q / q.norm(dim=-1, keepdim=True)
        scores = q @ k.mT
        half = mixer.directions.shape[-1]
        total, mass = [[] for _ in range(n)], [[] for _ in range(n)]
        for directions in mixer.directions[h]:
            turned = q @ directions[:, :used]
            nearest = torch.cat([turned, -turned], -1).argmax(-1).tolist()
            bucket = [b if b < used else b - used + half for b in nearest]
            order = sorted(range(n), key=lambda i: (bucket[i], i))
            rank = {token: place for place, token in enumerate(order)}
            for i in range(n):
                own = rank[i] // chunk
                seen = [j for j in order[max(0, own - 1) * chunk : (own + 1) * chunk] if j != i]
                if not seen:
                    total[i].append(torch.exp(scores.new_tensor(-700.0)) * v[i])
                    mass[i].append(torch.exp(scores.new_tensor(-700.0)))
                    continue
                weights = torch.exp(scores[i, seen])
                total[i].append(weights @ v[seen])
                mass[i].append(weights.sum())
        heads.append(torch.stack([sum(t) / sum(m) for t, m in zip(total, mass, strict=True)]))
    return joined(mixer, heads)


def fnet(mixer, x, causal):
    def matrix(size):
        places = torch.arange(size, dtype=x.dtype)
        angles = -2 * math.pi * torch.outer(places, places) / size
        return torch.complex(angles.cos(), angles.sin()) / math.sqrt(size)

    n, d = x.shape
    return (matrix(n) @ x.to(torch.complex128) @ matrix(d)).real


def nystromformer(mixer, x, causal):
    n, marks, heads = len(x), mixer.landmarks, []
    for h, (q, k, v) in enumerate(projected(mixer, x)):
        q, k = (t * t.shape[1] ** -0.25 for t in (q, k))
        members = [[t for t in range(n) if t * marks // n == m] for m in range(marks)]
        q_marks, k_marks = (torch.stack([t[m].mean(0) for m in members if m]) for t in (q, k))
        between = (q_marks @ k_marks.mT).softmax(-1)
        z = between.mT / between.sum(0).max()
        one = torch.eye(len(z), dtype=x.dtype)
        for _ in range(6):
            az = between @ z
            z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
        mixed = (q @ k_marks.mT).softmax(-1) @ z @ ((q_marks @ k.mT).softmax(-1) @ v)
        kernel = mixer.convolution[h, 0, :, 0]
        reach = len(kernel) // 2
        local = [
            sum(
                (kernel[reach + o] * v[i + o] for o in range(-reach, reach + 1) if 0 <= i + o < n),
                torch.zeros_like(v[0]),
            )
            for i in range(n)
        ]
        heads.append(mixed + torch.stack(local))
    return joined(mixer, heads)


NAIVE = {
    "transformer": transformer,
    "transformer-eager": transformer,
    "linformer": linformer,
    "reformer": reformer,
    "sinkhorn": sinkhorn,
    "sparse-transformer": by_pattern(sparse_pattern),
    "synthesizer-dense": synthesizer,
    "synthesizer-random": synthesizer,
    "bigbird": by_pattern(bigbird_pattern),
    "linear-attention": kernel(elu_kernel),
    "performer": kernel(positive_kernel),
    "rfa": kernel(gaussian_kernel, least=0.01),
    "lazyformer": lazyformer,
    "fnet": fnet,
    "nystromformer": nystromformer,
    "macaron": transformer,
}
