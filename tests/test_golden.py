"""Comparison with numbers recorded from the authors' code, the only external reference."""

import copy
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from support import EXACT, GOLDEN, reference_weights
from transevolve import TransEvolveForConditionalGeneration, TransEvolveForSequenceClassification, load_reference
from transevolve.evolution.attention import EvolvedAttention
from transevolve.evolution.depth import depth_map
from transevolve.evolution.initial import constant_operator, key_operator, merge_heads, row_operator, split_heads
from transevolve.evolution.rotation import rotation_pair
from transevolve.models.embedding import sinusoidal_positions
from transevolve.models.loss import smoothed_cross_entropy
from transevolve.training.optimizer import paper_learning_rate

SEEDED = ["seeded_classifier_full_2x3", "seeded_classifier_random_1x6", "seeded_seq2seq_full_1x6"]
LARGE = ["small_classifier_full_2x2", "small_seq2seq_full_1x2"]


def tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(array))


@pytest.fixture(scope="module", params=SEEDED)
def seeded(request):
    recorded = np.load(GOLDEN / f"{request.param}.npz")
    weights = reference_weights(recorded, hidden=512, vocab=50)
    sums = [weights[str(name)].astype(np.float64).sum() for name in recorded["chk/names"]]
    np.testing.assert_allclose(sums, recorded["chk/sum"], atol=1e-5)
    return recorded, load_reference(weights, heads=8)


def large(name: str) -> Path:
    path = Path(os.environ.get("TRANSEVOLVE_GOLDEN", "")) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here; TRANSEVOLVE_GOLDEN names the folder of the larger recordings")
    return path


def check_outputs(model, recorded, case: str) -> None:
    """Encoder outputs at real positions, and logits or probabilities, within 1e-4."""
    ids = tensor(recorded[f"in/{case}.src"]).long()
    real = ids != 0
    if isinstance(model, TransEvolveForConditionalGeneration):
        target = tensor(recorded[f"in/{case}.tgt"]).long()
        with torch.no_grad():
            out = model(ids, real.long(), target, (target != 0).long())
        encoded = out.encoder_last_hidden_state
        found, expected = out.logits[target != 0], tensor(recorded[f"out/{case}.logits"])[target != 0]
    else:
        with torch.no_grad():
            out = model(ids, real.long(), output_hidden_states=True)
        encoded = out.hidden_states[-1]
        rows = real.all(1)  # elsewhere the authors' code pools over padding
        found, expected = out.logits.softmax(-1)[rows], tensor(recorded[f"out/{case}.probs"])[rows]
    torch.testing.assert_close(encoded[real], tensor(recorded[f"out/{case}.encoder"])[real], rtol=0, atol=1e-4)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("case", ["nopad", "pad"])
@pytest.mark.parametrize("backend", EXACT)
def test_outputs(seeded, backend, case):
    recorded, model = seeded
    use(model, backend)
    check_outputs(model, recorded, case)


def use(model, backend: str) -> None:
    model.config.use_cache = False  # a cache has a computation of its own
    for module in model.modules():
        if isinstance(module, EvolvedAttention):
            module.backend = backend


def authors_logits(model: TransEvolveForSequenceClassification, ids: Tensor) -> Tensor:
    """The classifier as the authors' code runs it on a padded batch: the pad embedding is zero, -1e9 on padded queries
    (which then attend to every position alike) as on padded keys, and the mean is taken over padding too."""
    base, pad = model.model, ids == 0
    x = base.embedding(ids).masked_fill(pad[..., None], 0.0) + sinusoidal_positions(
        torch.arange(ids.shape[1]), base.config.hidden_size
    )
    for block in base.encoder.blocks:
        state = block.attention.begin(x, key_padding_mask=pad)
        for l, depth in enumerate(block.depths, 1):
            scores = state.evolution.scores(l) - 1e9 * (pad[:, None, :, None] | pad[:, None, None, :])
            mixed = scores.softmax(-1) @ split_heads(depth.value_norm(x), block.attention.num_heads)
            h = x + block.attention.output[l - 1](merge_heads(mixed))
            x = h + depth.feedforward(depth.feedforward_norm(h))
        x = block.norm(x)
    return model.head.classifier(model.head.norm(x.mean(1)))


def recorded_loss(model, recorded) -> Tensor:
    """The loss whose gradients were recorded, of the padded case."""
    ids = tensor(recorded["in/pad.src"]).long()
    if isinstance(model, TransEvolveForConditionalGeneration):
        target = tensor(recorded["in/pad.tgt"]).long()
        labels = target[:, 1:].masked_fill(target[:, 1:] == 0, -100)
        logits = model(ids, (ids != 0).long(), target, (target != 0).long()).logits[:, :-1]
        return smoothed_cross_entropy(logits, labels, 0.1)
    return cross_entropy(authors_logits(model, ids), torch.tensor([0, 3, 1]))


def reference_gradients(model) -> dict[str, Tensor]:
    """Gradients under the names of the authors' weights."""
    base = model.base_model
    grads: dict[str, Tensor] = {"embedding": base.embedding.weight.grad}

    def norm(path, module):
        grads[f"{path}.gamma"], grads[f"{path}.beta"] = module.weight.grad, module.bias.grad

    def initial(path, attention):
        wide = attention.query.weight.grad, attention.temporal_query.grad.mT
        grads[f"{path}.WQ"] = torch.cat(wide, 1)
        grads[f"{path}.WK"] = torch.cat([attention.key.weight.grad, attention.temporal_key.grad.mT], 1)

    def evolved(path, attention, i, value_norm):
        grads[f"{path}.coeffs"] = attention.depth_weight.grad[i]
        grads[f"{path}.WO"] = attention.output[i].weight.grad.mT
        norm(f"{path}.norm", value_norm)

    def layer(path, depth):
        norm(f"{path}.ff.norm", depth.feedforward_norm)
        for name in ("linear_1", "linear_2"):
            linear = getattr(depth.feedforward, name)
            grads[f"{path}.ff.{name}.bias"] = linear.bias.grad
            if hasattr(linear, "singular_values"):
                grads[f"{path}.ff.{name}.svals"] = linear.singular_values.grad
            else:
                grads[f"{path}.ff.{name}.kernel"] = linear.weight.grad.mT

    for b, block in enumerate(base.encoder.blocks):
        initial(f"encoder.{b}.attention", block.attention)
        norm(f"encoder.{b}.norm", block.norm)
        for i, depth in enumerate(block.depths):
            evolved(f"encoder.{b}.layers.{i}.attn", block.attention, i, depth.value_norm)
            layer(f"encoder.{b}.layers.{i}", depth)
    if isinstance(model, TransEvolveForConditionalGeneration):
        for b, block in enumerate(model.decoder.blocks):
            initial(f"decoder.{b}.self_attention", block.self_attention)
            initial(f"decoder.{b}.cross_attention", block.cross_attention)
            norm(f"decoder.{b}.norm", block.norm)
            for i, depth in enumerate(block.depths):
                path = f"decoder.{b}.layers.{i}"
                evolved(f"{path}.self_attn", block.self_attention, i, depth.value_norm)
                evolved(f"{path}.cross_attn", block.cross_attention, i, depth.memory_norm)
                layer(path, depth)
    else:
        norm("out_norm", model.head.norm)
        grads["classifier.kernel"] = model.head.classifier.weight.grad.mT
        grads["classifier.bias"] = model.head.classifier.bias.grad
    return grads


def check_gradients(model, recorded) -> None:
    model.zero_grad()
    loss = recorded_loss(model, recorded)
    torch.testing.assert_close(loss.detach().float(), tensor(recorded["out/loss"]), rtol=1e-5, atol=1e-5)
    loss.backward()
    grads = reference_gradients(model)
    names = [key[3:] for key in recorded.files if key.startswith("gn/")]
    assert sorted(names) == sorted(grads)
    for name in names:
        grad = grads[name].double()
        length, total, largest = recorded[f"gn/{name}"]
        spread = grad.numel() ** 0.5 * length  # what a sum of that many entries may lose by rounding
        assert abs(grad.norm() - length) <= 1e-3 * length + 1e-9, name
        assert abs(grad.abs().max() - largest) <= 1e-3 * largest + 1e-9, name
        assert abs(grad.sum() - total) <= 1e-3 * max(abs(total), 1e-2 * spread) + 1e-9, name


def test_padded_probabilities(seeded):
    recorded, model = seeded
    if isinstance(model, TransEvolveForConditionalGeneration):
        pytest.skip("a classifier's")
    use(model, "literal")
    with torch.no_grad():
        found = authors_logits(model, tensor(recorded["in/pad.src"]).long()).softmax(-1)
    torch.testing.assert_close(found, tensor(recorded["out/pad.probs"]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("backend", EXACT)
def test_gradient_summaries(seeded, backend):
    recorded, model = seeded
    if isinstance(model, TransEvolveForSequenceClassification) and backend != "literal":
        pytest.skip("the authors' treatment of padding needs the attention matrix itself")
    if backend != "literal":  # float32 may put a unit that is 1e-6 from zero on relu's other side
        model = copy.deepcopy(model).double()
    use(model, backend)
    check_gradients(model, recorded)


@pytest.mark.parametrize("name", LARGE)
def test_larger_recordings(name):
    recorded = np.load(large(name))
    weights = {key[2:]: recorded[key] for key in recorded.files if key[:2] in ("w/", "r/")}
    model = load_reference(weights, heads=2)
    use(model, "literal")
    for case in ("nopad", "pad"):
        check_outputs(model, recorded, case)
    check_gradients(model, recorded)
    grads = reference_gradients(model)
    for key in recorded.files:
        if key.startswith("g/"):
            torch.testing.assert_close(grads[key[2:]], tensor(recorded[key]), rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("name", LARGE)
def test_recorded_training(name):
    """Eight Adam steps under the authors' schedule, whose first step has learning rate 0."""
    recorded = np.load(large(name))
    weights = {key[2:]: recorded[key] for key in recorded.files if key[:2] in ("w/", "r/")}
    model = load_reference(weights, heads=2)
    use(model, "literal")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step in range(9):
        loss = recorded_loss(model, recorded)
        losses.append(loss.item())
        optimizer.param_groups[0]["lr"] = paper_learning_rate(step, 0.5, 128, 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    np.testing.assert_allclose(losses, recorded["out/train_losses"], rtol=2e-3)


@pytest.fixture(scope="module")
def layers():
    return np.load(GOLDEN / "layers_128.npz")


def test_operators(layers):
    """A0, A1, A2 and A3, which the recording calls A0, A1Q, A1K and A2."""
    query, key = tensor(layers["w/WQ"]), tensor(layers["w/WK"])
    q, k = tensor(layers["in/Iq"]) @ query[:, :128].mT, tensor(layers["in/Ik"]) @ key[:, :128].mT
    temporal_query, temporal_key = (w[:, 128:].mT.unflatten(0, (2, 64)) for w in (query, key))
    a0 = split_heads(q, 2) @ split_heads(k, 2).mT / 128**0.5
    found = {
        "A0": a0,
        "A1Q": row_operator(q, temporal_key),
        "A1K": key_operator(k, temporal_query),
        "A2": constant_operator(temporal_query, temporal_key)[None, :, None],
    }
    for name, operator in found.items():
        torch.testing.assert_close(operator, tensor(layers[f"out/{name}"]), rtol=0, atol=1e-4)


def test_depth_map(layers):
    weights = tensor(layers["w/coeffs"]).expand(6, -1)
    found = depth_map(weights, "reference")
    for i in range(6):
        torch.testing.assert_close(found[i], tensor(layers[f"out/t@i{i}"]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("masked", [True, False])
def test_attention_layer(layers, backend, masked):
    attention = EvolvedAttention(128, 2, 4, convention="reference", row_operators=True, backend=backend)
    query, key = tensor(layers["w/WQ"]), tensor(layers["w/WK"])
    values = tensor(layers["out/norm(V)"])
    with torch.no_grad():
        attention.query.weight.copy_(query[:, :128])
        attention.key.weight.copy_(key[:, :128])
        attention.temporal_query.copy_(query[:, 128:].mT)
        attention.temporal_key.copy_(key[:, 128:].mT)
        attention.depth_weight.copy_(tensor(layers["w/coeffs"]).expand(4, -1))
        for output in attention.output:
            output.weight.copy_(tensor(layers["w/WO"]).mT)
        hidden = tensor(layers["in/mask"])[:, 0] > 0
        padding = hidden.all(1) if masked else None
        rows = ~hidden.all(2) & (hidden == hidden.all(1, keepdim=True)).all(2) if masked else ~hidden.isnan().all(2)
        state = attention.begin(tensor(layers["in/Iq"]), tensor(layers["in/Ik"]), padding)
        assert rows.any()
        for i in range(4):
            found = attention(state, values, i + 1)
            expected = tensor(layers[f"out/layer2@i{i}" if masked else f"out/layer2_nomask@i{i}"])
            torch.testing.assert_close(found[rows], expected[rows], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("inputs", "outputs"), [(16, 64), (64, 16)])
def test_rotation_products(layers, inputs, outputs):
    path = f"tp_{inputs}_{outputs}"
    left, right = layers[f"r/{path}.coeffs"], layers[f"r/{path}.phases"]
    singular = tensor(layers[f"w/{path}.svals"]).double().reshape(-1)[: min(inputs, outputs)]
    for i in range(6):
        u, v = rotation_pair(left, right, inputs, outputs, i + 1, 6, "reference")
        expected = tensor(layers[f"W/{path}@i{i}"]).double()
        torch.testing.assert_close((u * singular) @ v, expected, rtol=0, atol=2e-5)


@pytest.fixture(scope="module")
def misc():
    return np.load(GOLDEN / "misc.npz")


@pytest.mark.parametrize(("lr_max", "hidden", "warmup"), [(1.5, 512, 16000), (0.5, 256, 8000)])
def test_learning_rates(misc, lr_max, hidden, warmup):
    found = [paper_learning_rate(int(step), lr_max, hidden, warmup) for step in misc["in/lr_steps"]]
    np.testing.assert_allclose(found, misc[f"out/lr({lr_max},{hidden},{warmup})"], rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.2])
def test_smoothed_loss(misc, smoothing):
    labels = tensor(misc["in/ce_labels"]).long()
    labels = labels.masked_fill(labels == 0, -100)
    found = smoothed_cross_entropy(tensor(misc["in/ce_logits"]), labels, smoothing)
    torch.testing.assert_close(found, tensor(misc[f"out/ce_smooth{smoothing}"]), rtol=0, atol=1e-5)


def test_positions(misc):
    rows = tensor(misc["in/posenc_rows"]).long()
    found = sinusoidal_positions(rows, 512)
    expected = tensor(misc["out/posenc512_rows"])
    # the recording multiplies in float32: at position p its angle is off by up to p * 2^-24
    slack = 1e-5 + rows[:, None] * 2.0**-23
    assert ((found - expected).abs() <= slack).all()
    table = sinusoidal_positions(torch.arange(64), 128)
    torch.testing.assert_close(table, tensor(misc["out/posenc128_64"]), rtol=0, atol=1e-5)
