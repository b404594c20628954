"""The default compiler backend (inductor), which needs a C++ compiler, gives the same numbers."""

import pytest
import torch

from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


EACH = {torch.float32: 1e-3, torch.bfloat16: 0.2}
"""The relative error of the gradient of one parameter: those of biases are small sums of large terms."""


@pytest.mark.parametrize("backend", ["auto", "linear"])
def test_inductor(backend):
    torch.manual_seed(0)
    config = TransEvolveConfig(
        vocab_size=40, hidden_size=32, num_attention_heads=4, intermediate_size=64, attention=backend, num_labels=3
    )
    model = TransEvolveForSequenceClassification(config).eval()
    ids, mask = torch.randint(1, 40, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[1, 7:] = 0
    with torch.no_grad():
        found, expected = torch.compile(model)(ids, mask).logits, model(ids, mask).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", ["once", "linear"])
def test_inductor_trains(backend, dtype):
    """Batches of several lengths, forward and backward: not much further from float32 than eager code is."""
    torch.manual_seed(0)
    config = TransEvolveConfig(
        vocab_size=40, hidden_size=32, num_attention_heads=4, intermediate_size=64, attention=backend, num_labels=3
    )
    model = TransEvolveForSequenceClassification(config).eval()
    compiled = torch.compile(model, dynamic=True)

    def gradients(run, length, dtype):
        mask = torch.ones(3, length, dtype=torch.long)
        mask[1, length // 2 :] = 0
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = run(torch.arange(3 * length).view(3, -1) % 39 + 1, mask, labels=torch.tensor([0, 1, 2])).loss
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters())]

    for length in (12, 17, 30):
        exact, eager, found = (
            gradients(run, length, kind) for run, kind in ((model, torch.float32), (model, dtype), (compiled, dtype))
        )
        of_compiled, of_eager, wanted = (torch.cat([x.flatten() for x in one]) for one in (found, eager, exact))
        error, allowed = float((of_compiled - wanted).norm()), float((of_eager - wanted).norm())
        assert error <= 1.5 * allowed + 1e-4 * float(wanted.norm())
        for a, c in zip(found, exact, strict=True):
            assert float((a - c).norm()) <= EACH[dtype] * float(c.norm()) + 1e-6
