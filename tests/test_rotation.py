"""Random rotations: the properties that the paper states, and those that checkpoints rely on."""

import copy

import numpy as np
import pytest
import torch

from transevolve.evolution.block import BlockOptions
from transevolve.evolution.feedforward import FullFeedForward, RandomFeedForward, RotationKey, rotation_streams
from transevolve.evolution.rotation import checksum, drawn_pair, draws, rotation

KEY = RotationKey(seed=0, stack=0, block=0, l=2, depth=6)


def shape(hidden: int, wide: int, **options) -> BlockOptions:
    return BlockOptions(hidden_size=hidden, intermediate_size=wide, depth=6, **options)


def whole(dim: int, l: int = 3, depth: int = 6) -> torch.Tensor:
    return rotation(draws((0, dim, l), dim, dim, dim // 2), l, depth, dim, dim)


def test_u_ut_tends_to_half_the_identity():
    """The diagonal is exactly 1/2 (sine and cosine of each angle); off it, entries fall as 1/sqrt(dim)."""
    spread = []
    for dim in (64, 256, 1024):
        gram = whole(dim) @ whole(dim).mT
        torch.testing.assert_close(gram.diagonal(), torch.full((dim,), 0.5, dtype=torch.float64))
        off = gram - torch.diag(gram.diagonal())
        spread.append(off.square().mean().sqrt().item() * dim**0.5)
    assert max(spread) < 1.1 * min(spread)
    assert abs(np.mean(spread) - 0.5) < 0.02


@pytest.mark.parametrize(("inputs", "outputs"), [(16, 64), (64, 16), (16, 24), (24, 16), (16, 16)])
def test_only_the_numbers_in_use_are_drawn(inputs, outputs):
    """The cut pair is the corner of the whole matrices, as far as the stream draws them in the same order."""
    rank = min(inputs, outputs)
    u, v = drawn_pair((5,), inputs, outputs, 2, 3, "paper")
    assert u.shape == (inputs, rank)
    assert v.shape == (rank, outputs)
    right = draws((5, 1), outputs, outputs, outputs // 2)
    torch.testing.assert_close(v, rotation(right, 2, 3, outputs, outputs)[:rank])
    left = draws((5, 0), inputs, inputs, min(rank, inputs // 2))
    full = np.zeros((inputs, inputs // 2))
    full[:, : left.shape[1]] = left
    torch.testing.assert_close(u, rotation(full, 2, 3, inputs, inputs)[:, :rank])


def test_streams_are_frozen():
    """These numbers define every seeded model ever saved: they may never change."""
    np.testing.assert_allclose(
        draws((0, 0, 0, 1, 0, 0), 4, 1, 3)[0], [5.056611445783208, 3.7156270951457064, -4.043640472973027], rtol=1e-6
    )
    assert checksum(rotation_streams(0, [(1, 6)])) == "b0269806"


def test_streams_are_independent():
    streams = rotation_streams(0, [(2, 3), (2, 3)])
    assert len(set(streams)) == len(streams) == 2 * 2 * 3 * 2 * 2
    first = [draws(s, 1, 1, 1).item() for s in streams]
    assert len(set(first)) == len(first)
    assert checksum(streams) != checksum(rotation_streams(1, [(2, 3), (2, 3)]))


def test_learned_parameters_are_few():
    layer = RandomFeedForward(shape(64, 256), KEY)
    assert sum(p.numel() for p in layer.parameters()) == 64 + 256 + 64 + 64
    assert not [name for name in layer.state_dict() if name.endswith((".u", ".v"))]


def test_folded_equals_chain_and_follows_the_weights():
    layer = RandomFeedForward(shape(32, 128), KEY).double()
    x = torch.randn(5, 32, dtype=torch.float64)
    chain = layer(x)
    layer.eval()

    def folded():
        with torch.no_grad():
            return layer(x)

    torch.testing.assert_close(folded(), chain.detach())
    kept = layer.linear_1.folded()
    assert layer.linear_1.folded() is kept
    with torch.no_grad():
        layer.linear_1.singular_values.mul_(1.5)
    assert layer.linear_1.folded() is not kept
    torch.testing.assert_close(folded(), layer(x).detach())
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    layer(x).square().sum().backward()
    optimizer.step()
    torch.testing.assert_close(folded(), layer(x).detach())
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.linear_2.singular_values.zero_()
        torch.testing.assert_close(other(x), other.linear_2.bias.expand(5, -1))
    assert folded().abs().max() > 0
    layer.float()
    torch.testing.assert_close(layer.linear_1.folded(), layer.linear_1.weight())


@pytest.mark.parametrize("factor", ["singular_values", "u", "v"])
def test_folded_weights_follow_writes_to_data(factor):
    """As when averaged weights are swapped in: such writes do not change the version counter."""
    layer, x = RandomFeedForward(shape(32, 128), KEY).eval(), torch.randn(5, 32)
    with torch.no_grad():
        layer(x)
        getattr(layer.linear_1, factor).data.mul_(1.5)
        getattr(layer.linear_2, factor).data.mul_(0.5)
        found = layer(x)
    torch.testing.assert_close(found, layer(x).detach())


def test_initial_gain():
    """The unit initialization gives outputs of the scale of a dense feed-forward; the authors' gives almost zero."""
    torch.manual_seed(0)
    x = torch.randn(512, 256)

    def gain(layer):
        return layer(x).square().mean().sqrt().item()

    dense = gain(FullFeedForward(shape(256, 1024)))
    unit = gain(RandomFeedForward(shape(256, 1024), KEY))
    inert = gain(RandomFeedForward(shape(256, 1024, rotation_init="reference"), KEY))
    assert 0.5 < dense < 0.65
    assert 0.8 < unit < 1.25
    assert inert < 0.002


def test_float64_angles():
    """Angles reach 1e4 radians: in float32 they would be off by more than the entries' own size."""
    u, _ = drawn_pair((0, 0, 0, 6, 0), 1024, 256, 6, 6, "paper")
    assert u.dtype == torch.float64
    layer = RandomFeedForward(shape(256, 1024), RotationKey(0, 0, 0, 6, 6))
    expected, _ = drawn_pair((0, 0, 0, 6, 1), 1024, 256, 6, 6, "paper")
    torch.testing.assert_close(layer.linear_2.u, expected.float())
