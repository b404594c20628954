import pytest
import torch

from transevolve.evolution.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_drops_its_share_and_keeps_the_mean(p, dtype):
    layer = Dropout(p).train()
    x = torch.ones(997, 1009, dtype=dtype, requires_grad=True)
    y = layer(x)
    kept = y != 0
    assert float(kept.double().mean()) == pytest.approx(1 - p, abs=2e-3)
    assert float(y.detach().double().mean()) == pytest.approx(1.0, rel=0.05)
    assert len(y.detach().unique()) == 2
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_neighbours_are_independent():
    """Four elements share one 64-bit draw: no lag shows a correlation."""
    kept = (Dropout(0.3).train()(torch.ones(2**20)) != 0).double()
    kept = kept - kept.mean()
    for lag in (1, 2, 3, 4, 5, 8, 256):
        assert abs(float((kept[:-lag] * kept[lag:]).mean() / kept.square().mean())) < 0.005


def test_seeded_and_silent_in_evaluation():
    layer, x = Dropout(0.3), torch.randn(100)
    torch.manual_seed(1)
    a = layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), a)
    assert layer.eval()(x) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_residual_keeps_its_dtype(dtype):
    layer, x, y = Dropout(0.3).train(), torch.randn(50, 8), torch.randn(50, 8, dtype=dtype)
    torch.manual_seed(1)
    found = layer.add(x, y)
    torch.manual_seed(1)
    assert torch.equal(found, x + layer(y.float()))
    assert torch.equal(layer.eval().add(x, y), x + y)


def test_a_compiled_layer_draws_the_same():
    layer, x = Dropout(0.3).train(), torch.randn(50, 8, requires_grad=True)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.manual_seed(1)
    expected = layer(x)
    torch.manual_seed(1)
    found = compiled(x)
    assert torch.equal(found, expected)
    (grad,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(grad != 0, expected != 0)
