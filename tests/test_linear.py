"""`Linear` and `multiply`: oneDNN and MKL give the same products, and oneDNN is used only where it applies."""

import copy
import time

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.functional import linear

from transevolve.core import private
from transevolve.evolution import linear as module
from transevolve.evolution import onednn
from transevolve.evolution.linear import SMALLEST, Linear, multiply

WEIGHT, BIAS = torch.randn(512, 128), torch.randn(512)
ROWS = SMALLEST // WEIGHT.numel()
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")


@pytest.fixture(autouse=True)
def calls(monkeypatch) -> list[int]:
    """The rows of each product that oneDNN computed, as on a CPU where it is faster."""
    rows: list[int] = []

    def counted(x, weight, bias=None):
        rows.append(x.numel() // x.shape[-1])
        return private.onednn_linear(x, weight, bias)

    monkeypatch.setattr(onednn, "onednn_multiplies_faster", lambda: True)
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


def gradients(layer: nn.Linear, x: Tensor, power: int = 2) -> list[Tensor]:
    """Of a sum over relu(layer(x)), by x and the parameters."""
    y = torch.relu_(layer(x.flatten(0, -2)))
    return list(torch.autograd.grad(y.pow(power).sum(), [x, *layer.parameters()], create_graph=power > 2))


@needs_onednn
def test_spare_room_between_rows_is_no_slower():
    """For such a weight oneDNN has only reference code."""
    wide = torch.randn(2048, 512)
    x, weight = torch.randn(1024, 64), wide[:, :64]

    def seconds(weight: Tensor) -> float:
        start = time.process_time()
        onednn.multiply_by_head(x[None], weight.mT[None])
        return time.process_time() - start

    for one in (weight, weight.contiguous()):
        seconds(one)
    assert min(seconds(weight) for _ in range(3)) < 20 * min(seconds(weight.contiguous()) for _ in range(3))


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(128, 512), (512, 128)])
@pytest.mark.parametrize("rows", [ROWS, ROWS + 5])
def test_gradients(calls, rows, inputs, outputs, bias):
    layer = Linear(inputs, outputs, bias=bias)
    x = torch.randn(2, rows, inputs, requires_grad=True)
    expected = gradients(copy.deepcopy(layer).double(), x.detach().double().requires_grad_())
    for found, wanted in zip(gradients(layer, x), expected, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))
    assert len(calls) == 3


@needs_onednn
def test_second_derivatives(calls):
    layer = Linear(128, 512)
    x = torch.randn(ROWS, 128, requires_grad=True)

    def penalty(layer: nn.Linear, x: Tensor) -> list[Tensor]:
        value = torch.stack([g.square().mean() for g in gradients(layer, x, power=3)]).sum()
        return list(torch.autograd.grad(value, [x, *layer.parameters()]))

    expected = penalty(copy.deepcopy(layer).double(), x.detach().double().requires_grad_())
    for found, wanted in zip(penalty(layer, x), expected, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))
    assert calls


@needs_onednn
def test_a_frozen_layer_has_no_gradient(calls):
    layer = Linear(128, 512).requires_grad_(False)
    x = torch.randn(ROWS, 128, requires_grad=True)
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(ROWS, -1))
    assert layer.weight.grad is None
    assert calls == [ROWS, ROWS]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_other_cases_use_pytorch_s_own_product(calls):
    layer, x = Linear(128, 512), torch.randn(ROWS, 128)
    plain = nn.Linear(128, 512)
    plain.load_state_dict(layer.state_dict())
    with torch.no_grad():
        assert torch.equal(layer(x[1:]), plain(x[1:])), "too few rows"
        assert layer(x[:0]).shape == (0, 512)
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        double = copy.deepcopy(layer).double()
        assert double(x.double()).dtype == torch.float64
        assert torch.equal(torch.vmap(layer)(x[None]), plain(x[None]))
    _, tangent = torch.func.jvp(layer, (x,), (x,))
    torch.testing.assert_close(tangent, linear(x, layer.weight))
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, x))).tangent
    assert torch.equal(found, tangent)
    with torch.no_grad():
        exported = torch.export.export(layer, (x,))
        assert "mkldnn" not in str(exported.graph)
    assert calls == []
