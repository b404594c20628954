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
