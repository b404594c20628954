"""The properties of attention on a real GPU: `make gpu`."""

import copy

import pytest
import torch
from torch import Tensor

from support import COMPUTING, EXACT, KINDS, Case, make_case

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("unchecked")]
PRECISIONS = {"fp32": (None, 2e-5), "bf16": (torch.bfloat16, 5e-2), "fp16": (torch.float16, 2e-2)}


def on_gpu(case: Case, dtype: torch.dtype = torch.float32) -> Case:
    def to(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.detach().to("cuda", dtype).requires_grad_()

    layer = copy.deepcopy(case.layer).to("cuda", dtype)
    padding = None if case.padding is None else case.padding.cuda()
    return Case(layer, to(case.x), to(case.memory), padding, [to(v) for v in case.values], case.causal)


def gradients(case: Case, y: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(y.double().sin().sum(), [case.x, *case.values, *case.layer.parameters()]))


@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", [name for name in EXACT if name != "literal"])
@pytest.mark.parametrize("n", [7, 300])
def test_agrees_with_literal(backend, kind, precision, n):
    low, tolerance = PRECISIONS[precision]
    case = make_case(kind, n=n, keys=n)
    exact, there = on_gpu(case, torch.float64), on_gpu(case)
    expected = exact.run("literal")
    with torch.autocast("cuda", low, enabled=low is not None):
        found = there.run(backend)
    wanted, computed = [expected, *gradients(exact, expected)], [found, *gradients(there, found)]
    for a, b in zip(computed, wanted, strict=True):
        assert float((a.double() - b).norm() / b.norm()) < tolerance


@pytest.mark.parametrize("backend", COMPUTING)
def test_a_stream_is_its_sequence(backend):
    case = make_case("causal", n=11, padded=False, backend=backend)
    there = on_gpu(case)
    whole, stream, found = there.run(), there.layer.stream(), []
    for i in range(11):
        state = there.layer.begin(there.x[:, i : i + 1], causal=True, stream=stream)
        found.append(torch.stack([there.layer(state, v[:, i : i + 1], l) for l, v in enumerate(there.values, 1)]))
    torch.testing.assert_close(torch.cat(found, 2), whole, rtol=1e-4, atol=1e-4)
