"""Properties of every system."""

import re
import subprocess
import sys
from functools import partial
from typing import get_origin

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from peers_cases import CASES, CAUSAL, SHAPE, SMALL, padding_of, small, tiny_config
from training_support import PATIENCE
from transevolve import PeerConfig, PeerForSequenceClassification
from transevolve.peers import SYSTEMS, Capabilities, Mixer, MixerShape, build_mixer, resolved_settings, settings
from transevolve.peers.encoder import PeerEncoder

STOCHASTIC = [name for name, system in SYSTEMS.items() if system.capabilities.stochastic]
FIXED = [name for name, system in SYSTEMS.items() if system.capabilities.fixed_length]
ORDERLESS = [
    *("transformer", "transformer-eager", "linear-attention", "performer"),
    *("rfa", "lazyformer", "macaron"),
]


class Mean(Mixer):
    """The mean of all tokens, a minimal mixer."""

    capabilities = Capabilities(causal=False, padding=False, fixed_length=True, stochastic=False)

    def mix(self, x, key_padding_mask, causal):
        return x.mean(1, keepdim=True).expand_as(x)

    def reset_parameters(self):
        """It has no parameters."""


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_the_record_of_a_system(name):
    system = SYSTEMS[name]
    assert len(SYSTEMS) >= 15
    assert system.name == name
    assert re.search(r"[ ,]20\d\d$", system.citation)
    assert "n" in system.complexity
    assert system.backend in ("sdpa", "eager", "once", "fft")
    mixer = system.build(SHAPE)
    assert mixer.capabilities == system.capabilities
    assert system.capabilities.padding
    for parameter in settings.known_settings(system.build).values():
        assert parameter.default is not parameter.empty
        assert get_origin(parameter.annotation) is not None, "settings are Count, Seed or Literal"
    assert ("seed" in settings.known_settings(system.build)) == system.capabilities.stochastic


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("causal", [False, True])
def test_padding_changes_neither_values_nor_gradients(case, causal):
    """Whether it is none, or three times as long as the sequence."""
    if causal and case not in CAUSAL:
        pytest.skip("not causal")
    mixer = small(case)
    x = torch.randn(2, 11, 16, dtype=torch.float64, requires_grad=True)
    expected = mixer(x, None, causal)
    gradients = torch.autograd.grad(expected.square().sum(), [x, *mixer.parameters()], allow_unused=True)
    for longer in (0, 1, 33):
        garbage = 100 * torch.randn(2, longer, 16, dtype=torch.float64)
        found = mixer(torch.cat([x, garbage], 1), padding_of(11, 11, n=11 + longer), causal)[:, :11]
        torch.testing.assert_close(found, expected)
        again = torch.autograd.grad(found.square().sum(), [x, *mixer.parameters()])
        for one, other in zip(again, gradients, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("case", list(CASES))
def test_rows_of_a_batch_are_independent(case):
    mixer = small(case)
    x, padding = torch.randn(3, 13, 16, dtype=torch.float64), padding_of(13, 5, 8, n=13)
    together = mixer(x, padding)
    for row in range(3):
        torch.testing.assert_close(mixer(x[row : row + 1], padding[row : row + 1])[0], together[row])


@pytest.mark.parametrize("case", CAUSAL)
def test_the_future_does_not_leak(case):
    mixer = small(case)
    x = torch.randn(1, 9, 16, dtype=torch.float64, requires_grad=True)
    y = mixer(x, causal=True)
    for i in range(9):
        (gradient,) = torch.autograd.grad(y[:, i].sum(), x, retain_graph=True)
        assert gradient[:, i].abs().sum() > 0
        assert gradient[:, i + 1 :].abs().sum() == 0
        torch.testing.assert_close(mixer(x[:, : i + 1], causal=True), y[:, : i + 1])


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("causal", [False, True])
def test_a_query_that_sees_no_key_gives_zeros_and_no_gradient(case, causal):
    if causal and case not in CAUSAL:
        pytest.skip("not causal")
    mixer = small(case, torch.float32)
    x = torch.randn(2, 9, 16, requires_grad=True)
    ignored = torch.tensor([[True] * 9, [True] * 3 + [False] * 6])
    y = mixer(x, ignored, causal)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y[0].eq(0).all()
    assert gradient[0].eq(0).all()
    assert y[1, 3:].ne(0).any()
    if causal:
        assert y[1, :3].eq(0).all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("system", ORDERLESS)
def test_without_positions_order_does_not_matter(system):
    mixer = small(system)
    x, order = torch.randn(2, 9, 16, dtype=torch.float64), torch.randperm(9)
    padding = padding_of(9, 5)
    torch.testing.assert_close(mixer(x[:, order], padding[:, order]), mixer(x, padding)[:, order])


@pytest.mark.parametrize("case", list(CASES))
def test_precisions(case):
    """float32 gives float64's numbers; bfloat16 and autocast give finite ones of the right type."""
    wide = small(case)
    x, padding = torch.randn(2, 13, 16, dtype=torch.float64), padding_of(13, 7, n=13)
    narrow = small(case, torch.float32)
    narrow.load_state_dict(wide.state_dict())
    torch.testing.assert_close(narrow(x.float(), padding).double(), wide(x, padding), rtol=2e-4, atol=2e-4)
    low = small(case, torch.bfloat16)(x.bfloat16(), padding)
    assert low.dtype == torch.bfloat16
    assert low.isfinite().all()
    leaf = x.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = narrow(leaf, padding)
    y.float().square().sum().backward()
    assert y.isfinite().all()
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("case", list(CASES))
def test_large_inputs_stay_finite(case):
    mixer = small(case, torch.float32)
    x = (50 * torch.randn(2, 13, 16)).requires_grad_()
    y = mixer(x, padding_of(13, 7, n=13))
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("system", STOCHASTIC)
def test_draws_depend_on_the_seed_and_the_layer(system):
    x = torch.randn(1, 40, 16)

    def run(seed, layer=0):
        torch.manual_seed(seed + 7 * layer)
        mixer = build_mixer(system, MixerShape(16, 4, 48, layer), {**SMALL[system], "seed": seed})
        for weight in mixer.parameters():
            torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(1))
        return mixer(x)

    assert torch.equal(run(3), run(3))
    assert not torch.allclose(run(3), run(4))
    assert not torch.allclose(run(3), run(3, layer=1))


@pytest.mark.parametrize(
    ("asked", "reported"),
    [
        ({"causal": True}, "Mean cannot be causal"),
        ({"key_padding_mask": padding_of(9, 4)}, "Mean cannot ignore padding"),
    ],
)
def test_what_a_mixer_cannot_do_is_an_error(asked, reported):
    with pytest.raises(ValueError, match=reported):
        Mean(SHAPE)(torch.randn(2, 9, 16), **asked)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in CAUSAL])
def test_systems_that_cannot_be_causal_raise(system):
    with pytest.raises(ValueError, match="cannot be causal"):
        small(system)(torch.randn(2, 9, 16, dtype=torch.float64), causal=True)


@pytest.mark.parametrize("system", FIXED)
def test_a_mixer_of_fixed_length_refuses_more(system):
    mixer = small(system, torch.float32)
    assert mixer(torch.randn(2, 48, 16)).shape == (2, 48, 16)
    with pytest.raises(ValueError, match="built for at most 48 tokens, got 49"):
        mixer(torch.randn(2, 49, 16))


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in FIXED])
def test_other_mixers_go_beyond_the_length_they_were_built_for(system):
    assert small(system, torch.float32)(torch.randn(1, 131, 16), padding_of(130, n=131)).isfinite().all()


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match="unknown system 'tranformer'; did you mean 'transformer'"):
        build_mixer("tranformer", SHAPE)
    with pytest.raises(ValueError, match="system 'transformer' has no setting 'features'; available: none"):
        build_mixer("transformer", SHAPE, {"features": 8})
    with pytest.raises(ValueError, match="system 'performer' has no setting 'feature'; did you mean 'features'"):
        build_mixer("performer", SHAPE, {"feature": 8})
    with pytest.raises(Exception, match="unknown system 'tranformer'"):
        tiny_config("tranformer")


@pytest.mark.parametrize(
    ("system", "settings", "reported"),
    [
        ("performer", {"features": 0}, "features must be an integer of at least 1, got 0"),
        ("performer", {"features": 8.5}, "features must be an integer of at least 1, got 8.5"),
        ("performer", {"features": True}, "features must be an integer of at least 1, got True"),
        ("reformer", {"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ("sparse-transformer", {"pattern": "random"}, "pattern must be one of fixed, strided, got 'random'"),
        ("sparse-transformer", {"block": 4, "summaries": 4}, "summaries=4 must be fewer than the block of 4 tokens"),
        ("rfa", {"features": 7}, "features must be even"),
        ("nystromformer", {"kernel": 4}, "kernel must be odd"),
    ],
)
def test_wrong_settings_are_reported(system, settings, reported):
    with pytest.raises(ValueError, match=reported):
        build_mixer(system, SHAPE, settings)


def test_unset_settings_have_their_defaults():
    assert resolved_settings("performer", {"features": 8}) == {"features": 8, "seed": 0}
    assert resolved_settings("transformer") == {}


def test_settings_are_checked_with_the_configuration():
    with pytest.raises(Exception, match="features must be an integer"):
        PeerConfig(system="performer", system_settings={"features": "many"})


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("system", ["transformer", "lazyformer", "macaron", "reformer"])
def test_recomputing_layers_gives_the_same_gradients(system, reentrant):
    encoder = PeerEncoder(system, 16, 4, num_layers=3, dropout=0.1, settings=SMALL.get(system)).train()
    encoder._gradient_checkpointing_func = partial(checkpoint, use_reentrant=reentrant)
    x = torch.randn(2, 9, 16)
    gradients = []
    for recompute in (False, True):
        encoder.gradient_checkpointing = recompute
        torch.manual_seed(0)
        y = encoder(x, padding_of(9, 4)).square().sum()
        gradients.append(torch.autograd.grad(y, list(encoder.parameters())))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_lazy_layers_share_the_attention_of_the_first_in_their_span():
    encoder = PeerEncoder("lazyformer", 16, 4, num_layers=5, settings={"span": 2}).double()
    assert [layer.mixer.query_key is not None for layer in encoder.layers] == [True, False, True, False, True]
    x = expected = torch.randn(2, 9, 16, dtype=torch.float64)
    attention = torch.empty(0)
    for layer in encoder.layers:
        h, mixer = layer.mixer_norm(expected), layer.mixer
        if mixer.query_key is not None:
            q, k = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in mixer.query_key(h).chunk(2, -1))
            attention = (q @ k.mT / 2).softmax(-1)
        values = mixer.value(h).unflatten(-1, (4, 4)).transpose(1, 2)
        expected = expected + mixer.output((attention @ values).transpose(1, 2).flatten(2))
        expected = expected + layer.feedforward(layer.feedforward_norm(expected))
    torch.testing.assert_close(encoder(x), encoder.norm(expected))


def test_a_macaron_layer_is_two_half_steps_around_attention():
    encoder = PeerEncoder("macaron", 16, 4, num_layers=1, intermediate_size=32)
    (layer,) = encoder.layers
    x = torch.randn(2, 9, 16)
    h = x + layer.first_feedforward(layer.first_norm(x)) / 2
    h = h + layer.mixer(layer.mixer_norm(h))
    torch.testing.assert_close(encoder(x), encoder.norm(h + layer.feedforward(layer.feedforward_norm(h)) / 2))
    plain = PeerEncoder("transformer", 16, 4, num_layers=1, intermediate_size=32)
    extra = sum(p.numel() for p in encoder.parameters()) - sum(p.numel() for p in plain.parameters())
    assert extra == 2 * 16 + 16


def test_gradient_checkpointing_is_switched_by_hugging_face():
    model = PeerForSequenceClassification(tiny_config())
    model.gradient_checkpointing_enable()
    assert model.encoder.gradient_checkpointing
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([0])).loss.backward()


@pytest.mark.parametrize("system", list(SYSTEMS))
def test_a_model_learns_and_predicts_with_any_padding(system):
    model = PeerForSequenceClassification(tiny_config(system, dropout=0.0))
    ids, mask, labels = torch.randint(1, 50, (4, 13)), (~padding_of(9, 9, 9, 9, n=13)).long(), torch.arange(4) % 3
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(4):
        loss = model(ids, mask, labels=labels).loss
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.eval()
    with torch.no_grad():
        found = model(ids, mask).logits
        assert torch.equal(model(ids, mask).logits, found)
        torch.testing.assert_close(model(ids[:, :9], mask[:, :9]).logits, found)
    assert found.shape == (4, 3)


def test_hidden_states_are_one_more_than_layers_and_attentions_are_refused():
    model = PeerForSequenceClassification(tiny_config()).eval()
    ids = torch.tensor([[1, 2, 3]])
    assert len(model(ids, output_hidden_states=True).hidden_states) == 3
    with pytest.raises(ValueError, match="does not support output_attentions"):
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


def _all_slow_but(*quick: str, systems: list[str]) -> list:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in systems]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("system", _all_slow_but("performer", "bigbird", systems=list(SYSTEMS)))
def test_export(system):
    """With any batch and length up to the maximum, or with one shape, according to the system's capabilities."""
    model = PeerForSequenceClassification(tiny_config(system, num_hidden_layers=1)).eval()

    def batch(*size):
        return torch.randint(1, 50, size), (~padding_of(*range(size[1], size[1] - size[0], -1), n=size[1])).long()

    if system == "fnet":
        with pytest.raises(Exception, match="export it without a mask"):
            torch.export.export(model, batch(2, 11), strict=False)
        program = torch.export.export(model, batch(2, 11)[:1], strict=False)
        ids = batch(2, 11)[:1]
        torch.testing.assert_close(program.module()(*ids).logits, model(*ids).logits)
        return
    shapes, sizes = None, [(2, 11)]
    if SYSTEMS[system].capabilities.export:
        rows, length = torch.export.Dim("rows", min=1, max=64), torch.export.Dim("length", min=2, max=47)
        shapes = {name: {0: rows, 1: length} for name in ("input_ids", "attention_mask")}
        sizes = [(1, 3), (2, 11), (5, 33)]
    program = torch.export.export(model, batch(2, 11), dynamic_shapes=shapes, strict=False)
    for size in sizes:
        inputs = batch(*size)
        with torch.no_grad():
            torch.testing.assert_close(program.module()(*inputs).logits, model(*inputs).logits, rtol=1e-4, atol=1e-5)


RELOAD = """
import sys, torch, transevolve
from pathlib import Path
from transformers import AutoModelForSequenceClassification
for folder in sorted(Path(sys.argv[1]).iterdir()):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids, mask, logits = torch.load(folder / "expected.pt")
    torch.testing.assert_close(model(ids, mask).logits, logits, rtol=0, atol=0)
    print(model.config.system)
"""


def test_saved_models_give_the_same_logits_in_a_fresh_process(tmp_path):
    ids, mask = torch.randint(1, 50, (2, 9)), (~padding_of(9, 6)).long()
    for system in SYSTEMS:
        chosen = {**SMALL.get(system, {}), **({"seed": 5} if system in STOCHASTIC else {})}
        model = PeerForSequenceClassification(tiny_config(system, system_settings=chosen)).eval()
        model.save_pretrained(tmp_path / system)
        torch.save((ids, mask, model(ids, mask).logits.detach()), tmp_path / system / "expected.pt")
    done = subprocess.run(
        [sys.executable, "-c", RELOAD, str(tmp_path)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.stdout.split() == sorted(SYSTEMS), done.stderr


def test_weights_of_another_system_are_refused(tmp_path):
    PeerForSequenceClassification(tiny_config("linformer")).save_pretrained(tmp_path)
    tiny_config("performer").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not contain the weights"):
        PeerForSequenceClassification.from_pretrained(tmp_path)
