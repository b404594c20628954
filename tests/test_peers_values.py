"""Every system's fast form against a naive implementation, and the properties of its random draws."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from peers_cases import CASES, CAUSAL, SHAPE, padding_of, small
from peers_naive import NAIVE, naive
from transevolve.evolution.backends import AutoBackend
from transevolve.peers import SYSTEMS, MixerShape, build_mixer, lazyformer
from transevolve.peers.nystromformer import pseudo_inverse
from transevolve.peers.sinkhorn import sinkhorn

SUBQUADRATIC = [
    *("linformer", "reformer", "sinkhorn", "sparse-transformer", "bigbird", "linear-attention"),
    *("performer", "rfa", "fnet", "nystromformer"),
]


def test_every_system_is_written_out():
    assert set(NAIVE) == set(SYSTEMS)


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_are_those_written_out(case, causal):
    """One batch: sequences of several lengths, with garbage as padding, and one that is only padding."""
    if causal and case not in CAUSAL:
        pytest.skip("not causal")
    mixer = small(case)
    lengths = [23, 14, 2, 0]
    padding = padding_of(*lengths, n=23)
    x = torch.randn(4, 23, 16, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 23, 16, dtype=torch.float64).masked_fill(padding[..., None], 0.0)
    expected = torch.zeros_like(x)
    for row, n in enumerate(lengths):
        if n:
            own = naive(CASES[case][0], mixer, x[row, :n], causal)
            expected = expected.index_put((torch.tensor(row), torch.arange(n)), own)
    found = mixer(x, padding, causal)
    hidden = padding[..., None]
    torch.testing.assert_close(found.masked_fill(hidden, 0.0), expected, rtol=1e-8, atol=1e-9)
    inputs = [x, *mixer.parameters()]
    gradients = [torch.autograd.grad((y * weights).sum(), inputs) for y in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_default_settings_on_short_and_on_whole_blocks(system):
    """Sequences shorter than a block, of two blocks exactly, and one token more."""
    shape = MixerShape(hidden_size=16, num_heads=2, max_length=257)
    mixer = build_mixer(system, shape).double()
    for n in (1, 5, 256, 257):
        x = torch.randn(1, n, 16, dtype=torch.float64)
        with torch.no_grad():
            y = mixer(x)
            padded = mixer(x, torch.zeros(1, n, dtype=torch.bool))
        assert y.isfinite().all()
        assert y.abs().sum() > 0
        torch.testing.assert_close(padded, y)


class _LargestTensor(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // leaf.element_size())
        return out


@pytest.mark.parametrize("system", SUBQUADRATIC)
@pytest.mark.parametrize("padded", [False, True])
def test_less_than_a_quadratic_matrix(system, padded):
    """At n = 4096, forward and backward: no tensor has n x n elements, for one head let alone for two."""
    n = 4096
    mixer = build_mixer(system, MixerShape(hidden_size=16, num_heads=2, max_length=n))
    x = torch.randn(1, n, 16, requires_grad=True)
    with _LargestTensor() as largest:
        mixer(x, padding_of(n - 7, n=n) if padded else None).sum().backward()
    assert largest.elements < n * n / 2


def test_big_bird_draws_are_real_others_and_the_same_with_padding():
    mixer = small("bigbird", random_blocks=3)
    blocks, g = 14, mixer.global_blocks
    random, found = mixer.draw(torch.ones(1, blocks, dtype=torch.bool))
    assert found.all()
    for head in random[0].tolist():
        for a, drawn in enumerate(head, g):
            assert len(set(drawn)) == 3
            assert all(b >= g and abs(a - b) > 1 for b in drawn)
    assert len({str(head) for head in random[0].tolist()}) == 4
    longer = torch.arange(20)[None] < blocks
    assert torch.equal(mixer.draw(longer)[0][:, :, : blocks - g], random)
    spread = build_mixer("bigbird", SHAPE, {"block": 1, "random_blocks": 1}).draw(torch.ones(1, 400, dtype=torch.bool))
    counts = torch.bincount(spread[0].flatten(), minlength=400)[2:]
    assert counts.max() < 20
    assert counts.float().std() < 1.5 * counts.float().mean().sqrt()


def test_sinkhorn_tends_to_a_doubly_stochastic_matrix():
    order = sinkhorn(torch.randn(2, 3, 6, 6, dtype=torch.float64), None, 60)
    torch.testing.assert_close(order.sum(-1), torch.ones(2, 3, 6, dtype=torch.float64))
    torch.testing.assert_close(order.sum(-2), torch.ones(2, 3, 6, dtype=torch.float64))


def test_pseudo_inverse():
    a = (3 * torch.eye(5, dtype=torch.float64) + torch.randn(2, 5, 5, dtype=torch.float64) / 4).softmax(-1)
    torch.testing.assert_close(pseudo_inverse(a), torch.linalg.pinv(a), rtol=1e-5, atol=1e-5)


def test_nystromformer_is_exact_with_a_landmark_for_each_token():
    exact, mixer = small("transformer"), small("nystromformer", landmarks=9)
    mixer.load_state_dict({**exact.state_dict(), "convolution": torch.zeros_like(mixer.convolution)})
    x = 0.3 * torch.randn(2, 9, 16, dtype=torch.float64)
    padding = padding_of(9, 6)
    difference = (mixer(x, padding) - exact(x, padding)).abs().max()
    assert difference < 0.1 * exact(x, padding).abs().max()


def test_performer_error_against_softmax_falls_with_features():
    shape = MixerShape(hidden_size=32, num_heads=2, max_length=24)
    exact = build_mixer("transformer", shape)
    x, errors = torch.randn(2, 24, 32) / 4, []
    for features in (16, 64, 256):
        total = 0.0
        for seed in range(8):
            mixer = build_mixer("performer", shape, {"features": features, "seed": seed})
            mixer.load_state_dict(exact.state_dict(), strict=False)
            total += (mixer(x) - exact(x)).square().mean().sqrt().item()
        errors.append(total)
    assert errors[0] > 1.6 * errors[1] > 1.6**2 * errors[2]


def test_rfa_tends_to_the_gaussian_kernel():
    mixer = small("rfa", features=8192)
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    q, k, v = (x @ w.mT for w in mixer.projections.weight.chunk(3))
    heads = []
    for a, b, c in zip(*(t.split(4, -1) for t in (q, k, v)), strict=True):
        a, b = (t / t.norm(dim=-1, keepdim=True) for t in (a, b))
        heads.append((-(a[:, :, None] - b[:, None]).square().sum(-1) / 2).softmax(-1) @ c)
    expected = torch.cat(heads, -1) @ mixer.output.weight.mT
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("causal", [False, True])
def test_lazyformer_without_room_for_its_matrix(causal, monkeypatch):
    mixer = small("lazyformer")
    x, padding = torch.randn(3, 9, 16, dtype=torch.float64), padding_of(9, 4, 0)
    kept = mixer(x, padding, causal)
    monkeypatch.setattr(lazyformer, "BACKEND", AutoBackend(memory_budget=1))
    torch.testing.assert_close(mixer(x, padding, causal), kept)
