"""Properties every system must have, and the Transformer's fused form against its written-out one."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from transevolve import PeerConfig, PeerForSequenceClassification
from transevolve.peers import SYSTEMS, Capabilities, Mixer, MixerShape, build_mixer
from transevolve.peers.encoder import PeerEncoder

SHAPE = MixerShape(hidden_size=16, num_heads=4, max_length=12)
PRECISIONS = {torch.float64: 1e-12, torch.float32: 1e-5}
PADDED = [name for name, system in SYSTEMS.items() if system.capabilities.padding]
CAUSAL = [name for name, system in SYSTEMS.items() if system.capabilities.causal]


def padding_of(*lengths: int, n: int = 9) -> Tensor:
    return torch.arange(n) >= torch.tensor(lengths)[:, None]


def tiny_config(system: str = "transformer", **overrides) -> PeerConfig:
    shape = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}
    return PeerConfig(**{"system": system, "num_hidden_layers": 2, "num_labels": 3, **shape, **overrides})


class Mean(Mixer):
    """The mean of all tokens: the least a mixer can be."""

    capabilities = Capabilities(causal=False, padding=False, fixed_length=True, stochastic=False)

    def mix(self, x, key_padding_mask, causal):
        return x.mean(1, keepdim=True).expand_as(x)

    def reset_parameters(self):
        """It learns nothing."""


@pytest.mark.parametrize("dtype", list(PRECISIONS))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_fused_attention_is_eager_attention(dtype, causal, padded):
    fused, eager = (build_mixer(name, SHAPE).to(dtype) for name in ("transformer", "transformer-eager"))
    eager.load_state_dict(fused.state_dict())
    x = torch.randn(3, 9, 16, dtype=dtype, requires_grad=True)
    weights = torch.randn(3, 9, 16, dtype=dtype)
    padding = padding_of(9, 4, 0) if padded else None
    found, expected = (mixer(x, padding, causal) for mixer in (fused, eager))
    torch.testing.assert_close(found, expected, rtol=0, atol=PRECISIONS[dtype])
    gradients = (
        torch.autograd.grad((y * weights).sum(), [x, *mixer.parameters()])
        for y, mixer in ((found, fused), (expected, eager))
    )
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=20 * PRECISIONS[dtype])


@pytest.mark.parametrize("system", PADDED)
@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_neither_values_nor_gradients(system, causal):
    if causal and system not in CAUSAL:
        pytest.skip("not causal")
    mixer = build_mixer(system, SHAPE).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    garbage = 100 * torch.randn(2, 4, 16, dtype=torch.float64)
    alone = mixer(x, padding_of(5, 5, n=5), causal)
    padded = mixer(torch.cat([x, garbage], 1), padding_of(5, 5), causal)[:, :5]
    torch.testing.assert_close(padded, alone)
    expected, found = (torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()]) for y in (alone, padded))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("system", CAUSAL)
def test_the_future_does_not_leak(system):
    mixer = build_mixer(system, SHAPE).double()
    x = torch.randn(2, 9, 16, dtype=torch.float64, requires_grad=True)
    for i in range(9):
        (gradient,) = torch.autograd.grad(mixer(x, causal=True)[:, i].sum(), x)
        assert gradient[:, i].abs().sum() > 0
        assert gradient[:, i + 1 :].abs().sum() == 0


@pytest.mark.parametrize("system", PADDED)
@pytest.mark.parametrize("causal", [False, True])
def test_a_query_that_sees_no_key_gives_zeros_and_no_gradient(system, causal):
    if causal and system not in CAUSAL:
        pytest.skip("not causal")
    mixer = build_mixer(system, SHAPE)
    x = torch.randn(2, 9, 16, requires_grad=True)
    blind = torch.tensor([[True] * 9, [True] * 3 + [False] * 6])
    y = mixer(x, blind, causal)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y[0].eq(0).all()
    assert gradient[0].eq(0).all()
    assert y[1, 3:].ne(0).any()
    assert y[1, :3].eq(0).all() == causal
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"causal": True}, "Mean cannot be causal"),
        ({"key_padding_mask": padding_of(9, 4)}, "Mean cannot ignore padding"),
    ],
)
def test_what_a_mixer_cannot_do_is_an_error(asked, told):
    with pytest.raises(ValueError, match=told):
        Mean(SHAPE)(torch.randn(2, 9, 16), **asked)


def test_a_mixer_of_fixed_length_refuses_more():
    assert Mean(SHAPE)(torch.randn(2, 12, 16)).shape == (2, 12, 16)
    with pytest.raises(ValueError, match="built for at most 12 tokens, got 13"):
        Mean(SHAPE)(torch.randn(2, 13, 16))


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="unknown system 'tranformer'; did you mean 'transformer'"):
        build_mixer("tranformer", SHAPE)
    with pytest.raises(ValueError, match="system 'transformer' has no setting 'features'"):
        build_mixer("transformer", SHAPE, {"features": 8})
    with pytest.raises(Exception, match="unknown system 'tranformer'"):
        tiny_config("tranformer")


def test_recomputing_layers_gives_the_same_gradients():
    encoder = PeerEncoder("transformer", 16, 4, num_layers=2, dropout=0.1).train()
    x = torch.randn(2, 9, 16)
    gradients = []
    for recompute in (False, True):
        encoder.gradient_checkpointing = recompute
        torch.manual_seed(0)
        y = encoder(x, padding_of(9, 4)).square().sum()
        gradients.append(torch.autograd.grad(y, list(encoder.parameters())))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradient_checkpointing_is_switched_by_hugging_face():
    model = PeerForSequenceClassification(tiny_config())
    model.gradient_checkpointing_enable()
    assert model.encoder.gradient_checkpointing
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([0])).loss.backward()


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_logits_do_not_depend_on_padding(system):
    model = PeerForSequenceClassification(tiny_config(system)).eval()
    ids = torch.randint(1, 50, (2, 9))
    mask = (~padding_of(6, 6)).long()
    torch.testing.assert_close(model(ids, mask).logits, model(ids[:, :6], mask[:, :6]).logits)


def test_hidden_states_are_one_more_than_layers_and_attentions_are_refused():
    model = PeerForSequenceClassification(tiny_config()).eval()
    ids = torch.tensor([[1, 2, 3]])
    assert len(model(ids, output_hidden_states=True).hidden_states) == 3
    with pytest.raises(ValueError, match="shows no attentions"):
        model(ids, output_attentions=True)


def test_initial_weights_are_glorot():
    mixer = PeerForSequenceClassification(tiny_config(hidden_size=128)).encoder.layers[0].mixer
    for weight in (mixer.projections.weight, mixer.output.weight):
        limit = (6 / (128 + 128)) ** 0.5
        assert weight.abs().max() <= limit
        torch.testing.assert_close(weight.std(), torch.tensor(limit / 3**0.5), rtol=0.05, atol=0)


def test_a_transformer_has_the_parameters_of_vaswani_without_projection_biases():
    d, wide, layers, vocab, labels = 16, 32, 2, 50, 3
    layer = 4 * d * d + 2 * d * wide + wide + d + 4 * d
    expected = vocab * d + layers * layer + 2 * d + 2 * d + d * labels + labels
    assert sum(p.numel() for p in PeerForSequenceClassification(tiny_config()).parameters()) == expected


RELOAD = """
import sys, torch, transevolve
from transformers import AutoModelForSequenceClassification
folder = sys.argv[1]
model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
ids, mask, logits = torch.load(folder + "/expected.pt")
torch.testing.assert_close(model(ids, mask).logits, logits)
print(type(model).__name__, model.config.system)
"""


def test_a_saved_model_gives_the_same_logits_in_a_fresh_process(tmp_path):
    model = PeerForSequenceClassification(tiny_config("transformer-eager")).eval()
    model.save_pretrained(tmp_path)
    ids, mask = torch.randint(1, 50, (2, 9)), (~padding_of(9, 6)).long()
    torch.save((ids, mask, model(ids, mask).logits.detach()), tmp_path / "expected.pt")
    done = subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split() == ["PeerForSequenceClassification", "transformer-eager"], done.stderr
