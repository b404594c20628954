"""Properties of single backends, in addition to those that all share."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from support import KINDS, Case, FusedKernel, make_case
from transevolve import (
    EvolvedAttention,
    TransEvolveConfig,
    TransEvolveForConditionalGeneration,
    TransEvolveForSequenceClassification,
)
from transevolve.evolution import onednn
from transevolve.evolution.backends import BACKENDS, AutoBackend, Backend, LinearBackend, fused, matrix, products, tiles
from transevolve.evolution.backends.pool import SMALLEST, BufferPool
from transevolve.evolution.backends.shared import SharedEvolution
from transevolve.evolution.backends.stored import StoredEvolution
from transevolve.evolution.backends.tiles import plan
from transevolve.evolution.features import orthogonal_features
from transevolve.evolution.initial import InitialCondition
from transevolve.runs.averaging import average_weights


def evolution_of(case: Case, backend: str):
    return case.layer.begin(case.x, case.memory, case.padding, case.causal, backend=backend).evolution


LIBRARIES = {"MKL": (torch.float64, 1e-10), "MKL on Intel": (torch.float64, 1e-10), "oneDNN": (torch.float32, 2e-6)}


@pytest.mark.parametrize("backend", ["once", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("drift", ["keys", "none"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_matrix_in_pieces(backend, kind, padded, drift, library, monkeypatch):
    """Tiles and pieces of every kind and size agree with the literal form."""
    if library == "oneDNN" and not torch.backends.mkldnn.is_available():
        pytest.skip("needs oneDNN")
    dtype, tolerance = LIBRARIES[library]
    monkeypatch.setattr(tiles, "CAUSAL_ROWS", 5)
    monkeypatch.setattr(tiles, "WORTH_CUTTING", 1)
    monkeypatch.setattr(tiles, "ALIGNED", 4)
    monkeypatch.setattr(matrix, "CACHED", 64)
    monkeypatch.setattr(products, "WIDE", 1)
    monkeypatch.setattr(products, "FEW", 3)
    monkeypatch.setattr(products, "cpu_vendor", lambda: "GenuineIntel" if library == "MKL on Intel" else "AuthenticAMD")
    monkeypatch.setattr(products, "SCORES_BY_HEAD", 1)
    monkeypatch.setattr(onednn, "onednn_multiplies_faster", lambda: library == "oneDNN")
    case = make_case(kind, n=23, keys=19, padded=padded, dtype=dtype, evolution=drift)
    expected, found = case.run("literal"), case.run(backend)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    for a, b in zip(case.gradients(found), case.gradients(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=10 * tolerance * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize("kind", KINDS)
def test_once_is_its_plain_form(kind):
    """P (w v) / D written out for autograd, nothing shared, tiled or reused."""
    case = make_case(kind, n=13, keys=13, dtype=torch.float64)
    state = case.layer.begin(case.x, case.memory, case.padding, case.causal, backend="literal")
    initial = state.evolution.initial
    visible = initial.visible()
    p = (initial.scaled_queries @ initial.head_keys.mT).masked_fill(~visible, -torch.inf).softmax(-1)
    plain = []
    for l, values in enumerate(case.values, 1):
        w = initial.drift[l - 1].masked_fill(case.padding[:, None], -torch.inf).softmax(-1)
        heads = values.unflatten(-1, (4, -1)).transpose(1, 2)
        y = (p @ (heads * w[..., None])) / (p @ w[..., None])
        plain.append(case.layer.output[l - 1](y.transpose(1, 2).flatten(2)))
    expected, found = torch.stack(plain), case.run("once")
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for a, b in zip(case.gradients(found), case.gradients(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


class _LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation returned."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for t in tree_leaves(found):
            if isinstance(t, torch.Tensor):
                self.elements = max(self.elements, t.untyped_storage().nbytes() // t.element_size())
        return found


@pytest.mark.parametrize("kind", ["self", "causal"])
@pytest.mark.parametrize("backend", ["fused", "linear"])
def test_no_matrix_is_ever_formed(backend, kind):
    """Forward and backward at n = 2048: no operation returns n x n elements, for one head let alone for four."""
    n = 2048
    case = make_case(kind, n=n, hidden=32, heads=4, batch=1, padded=True, backend=LinearBackend(features=16))
    with _LargestTensor() as largest:
        y = case.run(backend)
        case.gradients(y)
    assert largest.elements < n * n
    with _LargestTensor() as literal:
        case.run("literal")
    assert literal.elements >= 4 * n * n


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["once", "fused"])
def test_float16_autocast(backend, kind):
    case = make_case(kind, n=17, keys=17)
    expected = case.run("literal")
    with torch.autocast("cpu", torch.float16):
        found = case.run(backend)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=2e-2)
    for a, b in zip(case.gradients(found), case.gradients(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=5e-2 * max(1.0, float(b.abs().max())))


def test_once_with_holes_in_the_mask(monkeypatch):
    monkeypatch.setattr(tiles, "WORTH_CUTTING", 1)
    for kind in KINDS:
        case = make_case(kind, n=12, keys=12, dtype=torch.float64)
        case.padding = torch.rand(3, 12) < 0.5
        torch.testing.assert_close(case.run("once"), case.run("literal"), rtol=0, atol=1e-10)


def test_the_plan_skips_masked_scores():
    whole = plan(2, 8, 1024, 1024, None, causal=False)
    assert [t.shape for t in whole] == [(16, 1024, 1024)]
    ragged = plan(2, 8, 1024, 1024, [1024, 300], causal=False)
    assert [t.shape for t in ragged] == [(8, 1024, 1024), (8, 1024, 304)]
    causal = plan(1, 8, 1024, 1024, None, causal=True)
    assert sum(h * r * k for h, r, k in (t.shape for t in causal)) == 8 * 256 * (256 + 512 + 768 + 1024)
    assert len(plan(4, 8, 64, 64, [64, 3, 5, 9], causal=True)) == 1


@pytest.mark.parametrize("backend", ["once", "fused"])
def test_wide_drifts_are_not_factored_out(backend):
    assert isinstance(evolution_of(make_case("self"), backend), SharedEvolution)
    assert isinstance(evolution_of(make_case("self", drift=1000), backend), StoredEvolution)
    long = make_case("self", n=300, batch=1, padded=False, drift=1000)
    assert isinstance(evolution_of(long, backend), fused.FusedEvolution)


def test_once_keeps_one_matrix_for_backward():
    """All that autograd saves for six depths is one n x n matrix a head, and things linear in n."""
    n, heads = 1024, 4
    case = make_case("self", n=n, heads=heads, hidden=32, depth=6, batch=1, padded=False)
    saved: dict[int, int] = {}

    def pack(t):
        saved[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = case.run("once")
    matrix = 4 * heads * n * n
    assert matrix <= sum(saved.values()) < 1.5 * matrix
    literal: dict[int, int] = {}
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: literal.setdefault(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) and t, lambda t: t
    ):
        case.run("literal")
    assert sum(literal.values()) > 5 * matrix
    y.sum().backward()


def test_once_backward_twice():
    case = make_case("self")
    y = case.run("once")
    first = torch.autograd.grad(y.sum(), case.values, retain_graph=True)
    second = torch.autograd.grad(y.sum(), case.values)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["once", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [False, True])
def test_second_derivatives(backend, kind, padded):
    """The gradients of a gradient penalty are those of the literal form."""
    case = make_case(kind, n=5, keys=6, batch=2, hidden=8, heads=2, depth=2, dtype=torch.float64, padded=padded)

    def penalty(backend: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        y = case.run(backend)
        inputs = [case.x, *([] if case.memory is None else [case.memory]), *case.values, *case.layer.parameters()]
        first = torch.autograd.grad(y.sin().sum(), inputs, create_graph=True)
        value = torch.stack([g.square().sum() for g in first]).sum()
        return value, [*first, *torch.autograd.grad(value, inputs)]

    (found, gradients), (expected, literal) = penalty(backend), penalty("literal")
    torch.testing.assert_close(found, expected)
    for a, b in zip(gradients, literal, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives_of_the_fused_kernel_are_refused(kind):
    """PyTorch's fused attention has none."""
    case = make_case(kind)
    (first,) = torch.autograd.grad(case.run(FusedKernel()).sin().sum(), case.x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"attention.*backward is not implemented"):
        torch.autograd.grad(first.square().sum(), case.x)


@pytest.mark.parametrize("row_operators", [False, True])
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.usefixtures("unchecked")
def test_hessian_of_the_literal_form(row_operators):
    """`torch.func.hessian`, forward over reverse, against two passes of autograd."""
    case = make_case("self", n=3, batch=1, hidden=8, heads=2, depth=2, dtype=torch.float64, row_operators=row_operators)

    def loss(x):
        return Case(case.layer, x, None, case.padding, case.values, False).run("literal").sin().sum()

    found = torch.func.hessian(loss)(case.x.detach())
    torch.testing.assert_close(found, torch.autograd.functional.hessian(loss, case.x.detach()))
    assert found.abs().max() > 0


def test_once_with_some_depths_unused():
    """Only depth 2 of 3 enters the loss; the others do not contribute to the gradient."""
    for backend in ("literal", "once"):
        case = make_case("self", dtype=torch.float64)
        state = case.layer.begin(case.x, None, case.padding, backend=backend)
        case.layer(state, case.values[1], 2).square().sum().backward()
        if backend == "literal":
            expected = case.x.grad
    torch.testing.assert_close(case.x.grad, expected)


def test_bfloat16_keeps_the_drift():
    """A drift of 40 rounded to bfloat16 is off by 0.1; split over channels it is not."""
    case = make_case("self", n=33, batch=1, padded=False, drift=60.0)
    with torch.no_grad():
        case.layer.query.weight.zero_()
        expected = case.run("literal")
        with torch.autocast("cpu", torch.bfloat16):
            found = {name: case.run(name) for name in ("fused", "once")}
    for y in found.values():
        assert (y.float() - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize("kind", KINDS)
def test_linear_error_falls_with_features(kind):
    """Twelve draws of 16, 64, 256 features: the mean error against the literal form falls each time."""
    errors = []
    for features in (16, 64, 256):
        total = 0.0
        for seed in range(12):
            linear = LinearBackend(features=features, feature_seed=seed)
            case = make_case(kind, n=24, keys=24, backend=linear)
            with torch.no_grad():
                case.layer.query.weight.mul_(0.7)
                case.layer.key.weight.mul_(0.7)
                total += float((case.run("linear") - case.run("literal")).square().mean().sqrt())
        errors.append(total / 12)
    assert errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2]


@pytest.mark.parametrize("feature_map", ["positive", "elu"])
def test_chunked_linear_attention_equals_its_kernel(feature_map, monkeypatch):
    """Chunked causal attention is exactly the lower triangle of its own kernel, whatever the chunk."""
    from transevolve.evolution.backends import linear

    case = make_case("causal", n=29, dtype=torch.float64, backend=LinearBackend(feature_map=feature_map), drift=5.0)
    state = case.layer.begin(case.x, None, case.padding, True, backend="linear")
    for chunk in (1, 4, 64):
        monkeypatch.setattr(linear, "CHUNK", chunk)
        for l, values in enumerate(case.values, 1):
            heads = values.unflatten(-1, (4, -1)).transpose(1, 2)
            torch.testing.assert_close(state.evolution.mix(heads, l), state.attention(l) @ heads, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_linear_is_stable(kind, scale):
    """Large inputs, and bfloat16: finite values and gradients, rows that sum to one."""
    for low in (False, True):
        case = make_case(kind, n=40, keys=40, drift=30.0)
        with torch.no_grad():
            case.x.mul_(scale)
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            y = case.run("linear")
        assert torch.isfinite(y).all()
        assert all(torch.isfinite(g).all() for g in case.gradients(y))


def test_orthogonal_features():
    w = orthogonal_features(96, 32, 0).double()
    for block in w.split(32):
        unit = block / block.norm(dim=1, keepdim=True)
        torch.testing.assert_close(unit @ unit.mT, torch.eye(len(unit), dtype=torch.float64), rtol=0, atol=1e-5)
    assert abs(float(orthogonal_features(4096, 32, 0).square().sum(1).mean()) - 32) < 1.0
    assert torch.equal(orthogonal_features(8, 4, 5), orthogonal_features(8, 4, 5))


def test_features_are_redrawn_and_resumed(tmp_path):
    torch.manual_seed(0)
    config = TransEvolveConfig(
        vocab_size=20, hidden_size=32, num_attention_heads=4, attention="linear", feature_redraw_interval=2, dropout=0.0
    )
    model = TransEvolveForSequenceClassification(config).train()
    ids = torch.randint(1, 20, (2, 9))
    outputs = [model(ids).logits.detach() for _ in range(5)]
    same = [torch.equal(a, b) for a, b in itertools.pairwise(outputs)]
    assert same == [True, False, True, False]
    model.eval().save_pretrained(tmp_path)
    again = TransEvolveForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(again(ids).logits, model(ids).logits)
    assert torch.equal(again.train()(ids).logits, outputs[4])


def redrawing(head: type, **options):
    """A model with `linear` attention after five training passes, redrawn every second one."""
    torch.manual_seed(0)
    config = TransEvolveConfig(
        vocab_size=20, hidden_size=32, num_attention_heads=4, attention="linear", feature_redraw_interval=2, **options
    )
    model = head(config).train()
    ids = torch.randint(3, 20, (2, 9))
    for _ in range(5):
        model(ids, **({"labels": ids} if head is TransEvolveForConditionalGeneration else {}))
    return model.eval(), ids


@torch.no_grad()
def test_redrawn_features_decode_the_same_after_loading(tmp_path):
    model, ids = redrawing(TransEvolveForConditionalGeneration, dropout=0.0)
    expected = model(ids, decoder_input_ids=ids).logits
    model.save_pretrained(tmp_path)
    again = TransEvolveForConditionalGeneration.from_pretrained(tmp_path)
    cache = again.new_cache()
    pieces = [again(ids, decoder_input_ids=ids[:, i : i + 3], past_key_values=cache).logits for i in (0, 3, 6)]
    torch.testing.assert_close(torch.cat(pieces, 1), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_redrawn_features_are_exported(tmp_path):
    model, ids = redrawing(TransEvolveForSequenceClassification)
    expected = model(ids).logits
    model.save_pretrained(tmp_path)
    program = torch.export.export(TransEvolveForSequenceClassification.from_pretrained(tmp_path), (ids,), strict=False)
    torch.testing.assert_close(program.module()(ids).logits, expected, rtol=1e-5, atol=1e-5)


def test_counters_of_the_newest_checkpoint_are_averaged(tmp_path):
    """`average` keeps the redraw counter of the newest checkpoint instead of refusing it."""
    model, ids = redrawing(TransEvolveForSequenceClassification)
    model.save_pretrained(tmp_path / "a")
    model.train()(ids)
    model.save_pretrained(tmp_path / "b")
    found = average_weights([tmp_path / "a", tmp_path / "b"])
    assert {int(value) for name, value in found.items() if name.endswith("passes")} == {6}


def test_auto_follows_the_budget():
    small, large = AutoBackend(memory_budget=2**40), AutoBackend(memory_budget=1000)
    assert small.choose(256, 256, 1, 4)[0].name == "once"
    assert large.choose(256, 256, 1, 4)[0].name == "fused"
    assert isinstance(evolution_of(make_case("self", backend=small), "auto"), StoredEvolution)
    backend, why = AutoBackend(memory_budget=2**28).choose(4096, 4096, 1, 8)
    assert backend.name == "fused"
    assert "512.0 MiB, over the budget of 256.0 MiB" in why


def test_the_pool_reuses_only_free_buffers():
    pool = BufferPool()
    n = SMALLEST
    a = pool.take(n, torch.float32, torch.device("cpu"))
    b = pool.take(n, torch.float32, torch.device("cpu"))
    assert a.data_ptr() != b.data_ptr()
    first = a.data_ptr()
    view = a[5:]
    del a
    assert pool.take(n // 2, torch.float32, torch.device("cpu")).data_ptr() != first
    del view
    assert pool.take(n, torch.float32, torch.device("cpu")).data_ptr() == first
    pool.clear()
    assert b.fill_(1.0).sum() == n


class Minimal(Backend):
    """A backend with `begin` only."""

    name = "minimal"
    idea = "the literal form, without any capability"
    complexity = "that of literal"
    compiles = False

    def begin(self, initial: InitialCondition):
        return BACKENDS["literal"].begin(initial)


@pytest.mark.parametrize(
    ("ask", "capability"),
    [
        (lambda layer, x: layer.stream(), "continue a sequence"),
        (lambda layer, x: layer.remember(x, x.unflatten(-1, (4, -1)).transpose(1, 2)), "prepare keys"),
        (lambda layer, x: torch.compile(lambda: layer.begin(x), backend="eager", fullgraph=True)(), "be compiled"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_capability_that_a_backend_lacks_is_refused(ask, capability):
    layer, x = EvolvedAttention(32, 4, 3, backend=Minimal()), torch.randn(2, 5, 32)
    layer(layer.begin(x), x, 1)
    with pytest.raises(Exception, match=f"'minimal' cannot {capability}"):
        ask(layer, x)


def test_capabilities_are_named():
    assert BACKENDS["once"].capabilities() == "exact, streams, remembers, compiles"
    assert BACKENDS["linear"].capabilities() == "approximate, streams, remembers, redraws, compiles"
    assert AutoBackend().configured(memory_budget=5, features=3) == AutoBackend(memory_budget=5)


def test_a_layer_may_change_its_backend():
    case = make_case("self")
    case.layer.backend = LinearBackend(features=256)
    assert torch.equal(case.run(), case.run("linear"))
    assert not torch.equal(case.run(), case.run("literal"))
