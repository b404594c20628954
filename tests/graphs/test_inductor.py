"""The default compiler backend (inductor), which needs a C++ compiler, gives the same numbers."""

import pytest
import torch

from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]


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
    """Batches of several lengths, forward and backward."""
    torch.manual_seed(0)
    config = TransEvolveConfig(
        vocab_size=40, hidden_size=32, num_attention_heads=4, intermediate_size=64, attention=backend, num_labels=3
    )
    model = TransEvolveForSequenceClassification(config).eval()
    compiled = torch.compile(model, dynamic=True)

    def gradients(run, length):
        mask = torch.ones(3, length, dtype=torch.long)
        mask[1, length // 2 :] = 0
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = run(torch.arange(3 * length).view(3, -1) % 39 + 1, mask, labels=torch.tensor([0, 1, 2])).loss
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters())]

    tolerance = 1e-4 if dtype == torch.float32 else 0.03
    for length in (12, 17, 30):
        expected = gradients(model, length)
        for a, b in zip(gradients(compiled, length), expected, strict=True):
            assert float((a - b).norm()) <= tolerance * float(b.norm()) + 1e-6
