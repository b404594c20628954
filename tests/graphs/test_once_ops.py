"""`once` as custom operators: PyTorch's checks, and compiled models keep them."""

import pytest
import torch

from support import KINDS, Case, make_case
from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification
from transevolve.evolution.backends.once_ops import once_begin, once_begin_backward, once_mix, once_mix_backward


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch.compiler.reset()


@pytest.mark.parametrize("spread", [1.0, 100.0])
@pytest.mark.parametrize("causal", [False, True])
def test_opcheck(causal, spread):
    torch.manual_seed(0)
    q, k = (torch.randn(4, 7, 8, requires_grad=True) for _ in range(2))
    log_w = (spread * torch.randn(4, 3, 7)).requires_grad_()
    v, mask = torch.randn(4, 7, 5, requires_grad=True), torch.zeros(4, 7, dtype=torch.bool)
    torch.library.opcheck(once_begin, (q, k, log_w, mask, causal, 3, 5))
    p, d, left, right = (t.detach() for t in once_begin(q, k, log_w, mask, causal, 3, 5))
    inputs = [d[:, 0], log_w[:, 0].detach(), v, left[0], right[0], q, k]
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    torch.library.opcheck(once_mix, (p, *inputs, mask, causal))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("spread", [1.0, 100.0])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_have_the_declared_strides(causal, spread, dtype):
    """Otherwise inductor's code fails in the backward pass."""
    torch.manual_seed(0)
    q, k = (torch.randn(4, 7, 8, dtype=dtype) for _ in range(2))
    v, grad = (torch.randn(4, 7, 5, dtype=dtype) for _ in range(2))
    log_w, mask = spread * torch.randn(3, 4, 7).transpose(0, 1), torch.zeros(4, 7, dtype=torch.bool)
    p, d, left, right = once_begin(q, k, log_w, mask, causal, 3, 5)
    shared = (q, k, log_w, p, d, mask, causal)
    torch.library.opcheck(once_begin_backward, (torch.randn_like(d), left, right, *shared))
    first = (d[:, 0], log_w[:, 0], v)
    y = once_mix(p, *first, left[0], right[0], q, k, mask, causal)
    torch.library.opcheck(once_mix_backward, (grad, p, *first, y, q, k, mask, causal))


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_layer_is_exact_at_any_drift(kind):
    case = make_case(kind, backend="once", drift=1000.0)

    def run(x, memory, padding, values):
        return Case(case.layer, x, memory, padding, values, case.causal).run()

    found = torch.compile(run, backend="aot_eager", fullgraph=True)(case.x, case.memory, case.padding, case.values)
    expected = case.run("literal")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for a, b in zip(case.gradients(found), case.gradients(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize("attention", ["once", "auto"])
def test_a_compiled_model_keeps_once(attention):
    seen: list[str] = []

    def watch(graph: torch.fx.GraphModule, _):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    config = TransEvolveConfig(vocab_size=40, hidden_size=32, num_attention_heads=4, attention=attention, num_labels=3)
    model = TransEvolveForSequenceClassification(config)
    torch.compile(model, backend=watch, fullgraph=True)(torch.randint(1, 40, (2, 64))).logits.sum().backward()
    assert sum("once_begin" in name for name in seen) == 1
    assert sum("once_mix" in name for name in seen) == 6
    assert not any("scaled_dot_product" in name for name in seen)
