"""`Linear` and `multiply`: oneDNN and MKL give the same products, and oneDNN is used only where it applies."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from transevolve.core import private
from transevolve.evolution import linear as module
from transevolve.evolution.linear import SMALLEST, Linear, multiply

WEIGHT, BIAS = torch.randn(512, 128), torch.randn(512)
ROWS = SMALLEST // WEIGHT.numel()
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")


@pytest.fixture(autouse=True)
def calls(monkeypatch) -> list[int]:
    """The rows of each product that oneDNN computed, as on a CPU where it is faster."""
    rows: list[int] = []

    def counted(x, weight, bias):
        rows.append(x.numel() // x.shape[-1])
        return private.onednn_linear(x, weight, bias)

    monkeypatch.setattr(module, "onednn_multiplies_faster", lambda: True)
    monkeypatch.setattr(module, "onednn_linear", counted)
    return rows


@needs_onednn
@pytest.mark.parametrize("bias", [BIAS, None], ids=["bias", "no bias"])
@pytest.mark.parametrize("shape", [(ROWS, 128), (2, ROWS, 128), (ROWS + 5, 128), (3, ROWS + 1, 128)], ids=str)
def test_products_are_equal_up_to_rounding(calls, shape, bias):
    x = torch.randn(shape)
    strided = torch.randn(*shape[:-1], 256)[..., ::2]
    with torch.no_grad():
        for rows, weight in ((x, WEIGHT), (strided, WEIGHT), (x, WEIGHT.T.contiguous().T)):
            expected = linear(rows.double(), weight.double(), None if bias is None else bias.double())
            torch.testing.assert_close(multiply(rows, weight, bias).double(), expected, rtol=1e-5, atol=1e-4)
    assert calls == [-(-x.numel() // 128 // 64) * 64] * 3


@needs_onednn
def test_a_changed_weight_is_used_at_once(calls):
    layer = Linear(128, 512)
    x = torch.randn(ROWS, 128)
    with torch.no_grad():
        before = layer(x)
        layer.weight.data.mul_(2)
        torch.testing.assert_close(layer(x) - layer.bias, 2 * (before - layer.bias), rtol=1e-5, atol=1e-5)
    assert calls == [ROWS, ROWS]


def test_other_cases_use_pytorch_s_own_product(calls):
    layer, x = Linear(128, 512), torch.randn(ROWS, 128)
    plain = nn.Linear(128, 512)
    plain.load_state_dict(layer.state_dict())
    layer(x).sum().backward()
    plain(x).sum().backward()
    assert torch.equal(layer.weight.grad, plain.weight.grad)
    with torch.no_grad():
        assert torch.equal(layer(x[1:]), plain(x[1:])), "too few rows"
        assert layer(x[:0]).shape == (0, 512)
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        double = copy.deepcopy(layer).double()
        assert double(x.double()).dtype == torch.float64
        assert torch.equal(torch.vmap(layer)(x[None]), plain(x[None]))
        exported = torch.export.export(layer, (x,))
        assert "mkldnn" not in str(exported.graph)
    assert calls == []


def test_gradients_flow_through_a_frozen_layer(calls):
    layer = Linear(128, 512).requires_grad_(False)
    x = torch.randn(ROWS, 128, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(ROWS, -1))
    assert calls == []
