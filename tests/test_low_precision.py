"""`once` and `fused` in 16 bits: as exact as PyTorch's own attention in that type, with half the memory."""

import contextlib
import copy

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from support import KINDS, Case, FusedKernel, every_fast_form, make_case
from transevolve.config.recipe import TrainingOptions
from transevolve.evolution.backends import AutoBackend, FusedBackend, OnceBackend, products
from transevolve.evolution.backends.fused import WeightedEvolution
from transevolve.evolution.backends.shared import SharedEvolution
from transevolve.evolution.backends.stored import StoredEvolution
from transevolve.models.build import build_transevolve
from transevolve.training.optimizer import build_optimizer, build_schedule

LOW = [torch.bfloat16, torch.float16]
every_type = pytest.mark.parametrize("low", LOW, ids=["bf16", "fp16"])
every_kind = pytest.mark.parametrize("kind", KINDS)
ALLOWED = 1.5
STEPS = 300
DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(params=["with instructions", "without"])
def _bfloat16_cpu(request, monkeypatch):
    """A CPU that multiplies in bfloat16, whether this one does or not; and one that does not."""
    monkeypatch.setattr(products, "cpu_multiplies_bfloat16", lambda: request.param == "with instructions")


def in_type(case: Case, dtype: torch.dtype) -> Case:
    def to(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.detach().to(dtype).requires_grad_()

    layer = copy.deepcopy(case.layer).to(dtype)
    return Case(layer, to(case.x), to(case.memory), case.padding, [to(v) for v in case.values], case.causal)


def by_sdpa(case: Case) -> Tensor:
    """The same attention without drift, computed by PyTorch alone."""
    layer = case.layer

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (layer.num_heads, -1)).transpose(1, 2)

    q, k = heads(layer.query(case.x)), heads(layer.key(case.x if case.memory is None else case.memory))
    visible = ~case.padding[:, None, None]
    if case.causal:
        visible = visible & torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
    found = []
    for l, values in enumerate(case.values):
        v = heads(values).to(q.dtype)
        v = pad(v, (0, q.shape[-1] - v.shape[-1]))
        y = scaled_dot_product_attention(q, k, v, visible, scale=layer.scale)[..., : v.shape[-1] // 2]
        found.append(layer.output[l](y.transpose(1, 2).flatten(2)))
    return torch.stack(found)


def errors(case: Case, how: str, low: torch.dtype, run) -> list[float]:
    """Relative errors of the outputs and of every gradient, against `literal` in float64."""
    exact = in_type(case, torch.float64)
    expected = exact.run("literal")
    wanted = [expected, *exact.gradients(expected)]
    computed = case if how == "autocast" else in_type(case, low)
    with torch.autocast("cpu", low) if how == "autocast" else contextlib.nullcontext():
        y = run(computed)
    assert y.dtype == low
    found = [y, *computed.gradients(y)]
    return [
        float((a.detach().double() - b.detach()).norm() / b.detach().norm()) for a, b in zip(found, wanted, strict=True)
    ]


@every_type
@every_kind
@pytest.mark.parametrize("how", ["autocast", "model"])
@every_fast_form
@pytest.mark.usefixtures("_bfloat16_cpu")
def test_as_exact_as_sdpa(backend, how, kind, low):
    case = make_case(kind, n=48, keys=48, hidden=64, evolution="none")
    theirs = errors(case, how, low, by_sdpa)
    ours = errors(case, how, low, lambda c: c.run(backend))
    assert all(a <= ALLOWED * b for a, b in zip(ours, theirs, strict=True))


@every_type
@every_kind
@every_fast_form
@pytest.mark.usefixtures("_bfloat16_cpu")
def test_the_drift_adds_no_error(backend, kind, low):
    """With drift there is no SDPA to compare with: the error stays that of attention without drift."""
    still = make_case(kind, n=48, keys=48, hidden=64, evolution="none")
    theirs = errors(still, "autocast", low, by_sdpa)
    case = make_case(kind, n=48, keys=48, hidden=64, drift=2.0)
    ours = errors(case, "autocast", low, lambda c: c.run(backend))
    assert ours[0] <= ALLOWED * theirs[0]
    assert max(ours) <= (4 if backend.name == "fused kernel" else ALLOWED) * max(theirs)


@every_type
def test_half_the_memory(low):
    """What autograd saves in 16 bits is one matrix of two bytes per score, and things linear in n."""
    n, heads = 512, 4
    case = make_case("self", n=n, heads=heads, hidden=32, depth=6, batch=1, padded=False)
    saved: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), torch.autocast("cpu", low):
        case.run("once")
    assert max(saved.values()) == 2 * heads * n * n


def test_the_budget_counts_the_bytes_of_the_type():
    budget = 4 * 8 * 1024 * 1024 - 1
    auto = AutoBackend(memory_budget=budget)
    assert auto.choose(1024, 1024, 1, 8)[0].name == "fused"
    assert auto.choose(1024, 1024, 1, 8, dtype=torch.bfloat16)[0].name == "once"


def test_float16_keeps_to_the_range_it_has():
    """Beyond the range of float16, the drift stays in the exponentials."""
    forms = (OnceBackend(), FusedBackend(), FusedKernel())
    shared = [SharedEvolution, SharedEvolution, WeightedEvolution]
    for drift, expected in ((0.1, shared), (30.0, [StoredEvolution] * 3)):
        case = make_case("self", n=24, drift=drift, padded=False)
        with torch.autocast("cpu", torch.float16):
            found = [case.layer.begin(case.x, backend=backend).evolution for backend in forms]
        assert [type(evolution) for evolution in found] == expected


def test_second_derivatives_in_16_bits():
    case = make_case("self", n=5, batch=2, hidden=8, heads=2, depth=2, padded=False)

    def penalty(backend: str) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = case.run(backend)
        first = torch.autograd.grad(y.float().sin().sum(), [case.x], create_graph=True)
        return torch.autograd.grad(first[0].square().sum(), [case.x])[0]

    found, expected = penalty("once"), penalty("literal")
    assert float((found - expected).norm() / expected.norm()) < 0.05


def test_other_devices_get_the_exact_form_that_serves_them():
    backend, why = AutoBackend().choose(512, 512, 1, 8, device="mps")
    assert backend.name == "fused"
    assert "mps" in why
    assert isinstance(AutoBackend().choose(512, 512, 1, 8, device="cuda", dtype=torch.bfloat16)[0], OnceBackend)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForConditionalGeneration"])
def test_bf16_trains_as_well(head, device, monkeypatch):
    """The loss over 300 steps ends within one percent of that in float32."""
    monkeypatch.setattr(products, "cpu_multiplies_bfloat16", lambda: True)
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 50}
    ends = {}
    for low in (False, True):
        torch.manual_seed(0)
        labels = {"num_labels": 4} if head == "ForSequenceClassification" else {}
        model = build_transevolve(head, **sizes, dropout=0.0, **labels).to(device).train()
        options = TrainingOptions(learning_rate=1e-3)
        optimizer = build_optimizer(model, options)
        schedule = build_schedule(optimizer, options, STEPS, model.config.hidden_size)
        generator, losses = torch.Generator().manual_seed(1), []
        for _ in range(STEPS):
            ids = torch.randint(3, 50, (16, 24), generator=generator).to(device)
            target = ids[:, 0] % 4 if labels else ids.flip(1)
            with torch.autocast(device, torch.bfloat16, enabled=low):
                loss = model(input_ids=ids, labels=target).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        ends[low] = float(torch.stack(losses).mean())
    assert ends[True] == pytest.approx(ends[False], rel=0.01)
