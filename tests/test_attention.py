"""Properties of every backend, in self, causal and cross attention, in every precision."""

import contextlib
import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from support import COMPUTING, EXACT, KINDS, Case, every_fast_form, make_case
from transevolve import EvolvedAttention
from transevolve.evolution.block import AffineAfterAttention

PRECISIONS = {
    "float64": (torch.float64, None, 1e-10),
    "float32": (torch.float32, None, 2e-5),
    "bf16": (torch.float32, torch.bfloat16, 5e-2),
}


def autocast(dtype: torch.dtype | None):
    return contextlib.nullcontext() if dtype is None else torch.autocast("cpu", dtype)


def same(a: Tensor | list[Tensor], b: Tensor | list[Tensor], tolerance: float) -> None:
    """Equal within `tolerance` of the largest entry."""
    if isinstance(a, list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other, tolerance)
        return
    scale = max(1.0, float(b.detach().abs().max()))
    torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=tolerance * scale)


every_backend = pytest.mark.parametrize("backend", COMPUTING)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_precision = pytest.mark.parametrize("precision", list(PRECISIONS))


@every_precision
@every_kind
@every_fast_form
@pytest.mark.parametrize("drift", [1.0, 100.0, 1000.0])
@pytest.mark.parametrize("evolution", ["keys", "none"])
def test_agrees_with_literal(backend, kind, precision, drift, evolution):
    dtype, low, tolerance = PRECISIONS[precision]
    if low is not None and drift > 1:
        pytest.skip("a drift of 100 rounded to bfloat16 is off by 0.5: no two roundings need agree")
    case = make_case(kind, dtype=dtype, drift=drift, evolution=evolution)
    with autocast(low):
        expected, found = case.run("literal"), case.run(backend)
    same(found, expected, tolerance)
    rounding = drift * torch.finfo(dtype).eps  # of scores as large as the drift, which both sides suffer
    same(case.gradients(found), case.gradients(expected), tolerance + rounding)


def _padded_by(case: Case, extra: int) -> tuple[Case, int]:
    """The same case with `extra` garbage positions behind its keys, masked."""
    keys = case.values[0].shape[1]
    mask = case.padding if case.padding is not None else torch.zeros(case.x.shape[0], keys, dtype=torch.bool)

    def grown(t: Tensor) -> Tensor:
        garbage = 50 * torch.randn(t.shape[0], extra, t.shape[2], dtype=t.dtype)
        return torch.cat([t.detach(), garbage], 1).requires_grad_()

    return Case(
        case.layer,
        case.x if case.memory is not None else grown(case.x),
        None if case.memory is None else grown(case.memory),
        torch.cat([mask, mask.new_ones(len(mask), extra)], 1),
        [grown(v) for v in case.values],
        case.causal,
    ), keys


@every_precision
@every_kind
@every_backend
def test_padding_does_not_change_the_output(backend, kind, precision):
    dtype, low, tolerance = PRECISIONS[precision]
    case = make_case(kind, dtype=dtype)
    more, keys = _padded_by(case, 4)
    n = case.x.shape[1]
    weights = torch.randn(len(case.values), *case.x.shape, dtype=torch.float64).to(dtype)
    found = []
    with autocast(low):
        for one in (case, more):
            y = one.run(backend)[:, :, :n]
            inputs = [one.x if one.memory is None else one.memory, *one.values, *one.layer.parameters()]
            grads = torch.autograd.grad((y * weights).sum(), inputs)
            sequences = 1 + len(one.values)
            padded = one.padding
            for grad in grads[1:sequences]:
                assert torch.equal(grad[padded], torch.zeros_like(grad[padded])), "a padded value has a gradient"
            found.append([y, *(g[:, :keys] for g in grads[:sequences]), *grads[sequences:]])
    same(found[1], found[0], tolerance)


@every_precision
@every_backend
def test_no_token_sees_the_future(backend, precision):
    dtype, low, _ = PRECISIONS[precision]
    case = make_case("causal", dtype=dtype, padded=False, n=9)
    changed = make_case("causal", dtype=dtype, padded=False, n=9)
    with torch.no_grad():
        changed.x[:, 5:] = 9 * torch.randn_like(changed.x[:, 5:])
        for v in changed.values:
            v[:, 5:] = 9 * torch.randn_like(v[:, 5:])
    with autocast(low), torch.no_grad():
        a, b = case.run(backend), changed.run(backend)
    assert torch.equal(a[:, :, :5], b[:, :, :5])
    assert not torch.allclose(a[:, :, 5:], b[:, :, 5:])
    y = case.run(backend)
    inputs = [case.x, *case.values]
    for grad in torch.autograd.grad(y[:, :, :5].sum(), inputs):
        assert torch.equal(grad[:, 5:], torch.zeros_like(grad[:, 5:]))


@every_precision
@every_kind
@every_backend
def test_batch_order_is_irrelevant(backend, kind, precision):
    dtype, low, tolerance = PRECISIONS[precision]
    case = make_case(kind, dtype=dtype)
    order = torch.tensor([2, 0, 1])
    turned = Case(
        case.layer,
        case.x[order],
        None if case.memory is None else case.memory[order],
        case.padding[order],
        [v[order] for v in case.values],
        case.causal,
    )
    with autocast(low), torch.no_grad():
        same(turned.run(backend), case.run(backend)[:, order], min(tolerance, 1e-6))


@every_kind
@every_backend
@given(n=st.integers(1, 40), keys=st.integers(1, 40), seed=st.integers(0, 9))
def test_any_length(backend, kind, n, keys, seed):
    case = make_case(kind, n=n, keys=keys, seed=seed, batch=2)
    y = case.run(backend)
    assert y.shape == (3, 2, n, 32)
    assert torch.isfinite(y).all()
    assert all(torch.isfinite(g).all() for g in case.gradients(y))
    if backend in EXACT:
        same(y, case.run("literal"), 2e-5)


@every_precision
@every_kind
@every_backend
def test_a_query_without_keys_gets_zeros(backend, kind, precision):
    dtype, low, _ = PRECISIONS[precision]
    case = make_case(kind, dtype=dtype)
    case.padding = torch.zeros_like(case.padding)
    case.padding[1] = True
    case.padding[2, :3] = True
    with autocast(low):
        y = case.run(backend)
        without = [y[:, 1], y[:, 2, :3]] if kind == "causal" else [y[:, 1]]
        assert all(torch.equal(b, torch.zeros_like(b)) for b in without)
        grads = torch.autograd.grad(sum(b.sum() for b in without), [case.x, *case.values], retain_graph=True)
    assert all(torch.equal(g, torch.zeros_like(g)) for g in grads)
    assert all(torch.isfinite(g).all() for g in case.gradients(y))


@every_kind
@every_backend
def test_deterministic_under_a_seed(backend, kind):
    first = make_case(kind, dropout=0.3)
    torch.manual_seed(1)
    a = first.run(backend)
    torch.manual_seed(1)
    b = first.run(backend)
    torch.manual_seed(2)
    c = first.run(backend)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@every_kind
@every_backend
def test_attention_matrix_is_what_mixes(backend, kind):
    case = make_case(kind, dtype=torch.float64)
    state = case.layer.begin(case.x, case.memory, case.padding, case.causal, backend=backend)
    for l, values in enumerate(case.values, 1):
        heads = values.unflatten(-1, (4, -1)).transpose(1, 2)
        matrix = state.attention(l)
        same(matrix @ heads, state.evolution.mix(heads, l), 1e-10)
        rows = matrix.sum(-1)
        assert ((rows - 1).abs() < 1e-9).logical_or(rows == 0).all()


@every_kind
@every_backend
def test_copies_and_dtypes(backend, kind):
    case = make_case(kind, backend=backend)
    y = case.run()
    other = copy.deepcopy(case.layer)
    assert torch.equal(Case(other, case.x, case.memory, case.padding, case.values, case.causal).run(), y)
    fresh = EvolvedAttention(32, 4, 3, backend=backend)
    fresh.load_state_dict(case.layer.state_dict())
    assert torch.equal(Case(fresh, case.x, case.memory, case.padding, case.values, case.causal).run(), y)
    wide = copy.deepcopy(case.layer).double()
    memory = None if case.memory is None else case.memory.double()
    doubled = Case(wide, case.x.double(), memory, case.padding, [v.double() for v in case.values], case.causal)
    assert doubled.run().dtype == torch.float64
    same(doubled.run(), y, 2e-5)


@pytest.mark.parametrize("pieces", [[1] * 11, [4, 1, 6], [11]])
@pytest.mark.parametrize("padded", [False, True])
@every_backend
def test_a_stream_is_its_sequence(backend, padded, pieces):
    """Tokens one by one, or in pieces, give the same result as the whole sequence."""
    case = make_case("causal", n=11, dtype=torch.float64, padded=padded, backend=backend)
    if padded:
        case.padding = torch.zeros(3, 11, dtype=torch.bool)
        case.padding[1, :4] = True
        case.padding[2, 7:] = True
    stream, found, start = case.layer.stream(), [], 0
    for n in pieces:
        part = slice(start, start + n)
        padding = None if case.padding is None else case.padding[:, part]
        state = case.layer.begin(case.x[:, part], None, padding, True, stream=stream)
        found.append(torch.stack([case.layer(state, v[:, part], l) for l, v in enumerate(case.values, 1)]))
        start += n
    same(torch.cat(found, 2), case.run(), 1e-10)


def test_a_linear_stream_does_not_grow():
    case = make_case("causal", n=40, backend="linear", padded=False)
    stream = case.layer.stream()
    sizes = []
    for i in range(40):
        state = case.layer.begin(case.x[:, i : i + 1], causal=True, stream=stream)
        for l, v in enumerate(case.values, 1):
            case.layer(state, v[:, i : i + 1], l)
        sizes.append(sum(c.values.numel() + c.features.numel() + c.scale.numel() for c in stream.carries.values()))
    assert len(set(sizes)) == 1
    with pytest.raises(ValueError, match="only causal"):
        case.layer.begin(case.x, stream=stream)


def test_cancellation():
    """A1 and A3 have no effect, to the last digits of float64; Wk~ gets a gradient of exactly zero."""
    for kind in KINDS:
        case = make_case(kind, dtype=torch.float64, row_operators=True)
        whole = case.run("literal")
        bare = copy.deepcopy(case.layer)
        bare.temporal_key = None
        rest = Case(bare, case.x, case.memory, case.padding, case.values, case.causal)
        torch.testing.assert_close(rest.run("literal"), whole, rtol=0, atol=1e-12)
        with torch.no_grad():
            case.layer.temporal_key.mul_(-3)
        torch.testing.assert_close(case.run("literal"), whole, rtol=0, atol=1e-12)


@every_backend
def test_row_operators_get_a_zero_gradient(backend):
    case = make_case("self", row_operators=True)
    case.run(backend).square().sum().backward()
    assert torch.equal(case.layer.temporal_key.grad, torch.zeros_like(case.layer.temporal_key))
    assert case.layer.temporal_query.grad.abs().max() > 0


@pytest.mark.parametrize("backend", EXACT)
def test_gradcheck(backend):
    case = make_case("self", n=4, batch=2, hidden=8, heads=2, depth=2, dtype=torch.float64, seed=3)

    def run(x, *values):
        return Case(case.layer, x, None, case.padding, list(values), False).run(backend)

    assert torch.autograd.gradcheck(run, (case.x, *case.values))


@every_backend
def test_gain_and_offset_can_be_applied_after_the_product(backend):
    case = make_case("cross", dtype=torch.float64)
    case.padding[1] = True
    affine = AffineAfterAttention(32).double()
    torch.nn.init.normal_(affine.weight)
    torch.nn.init.normal_(affine.bias)
    state = case.layer.begin(case.x, case.memory, case.padding, backend=backend)
    before = state.mix(case.values[0] * affine.weight + affine.bias, 1)
    same(affine(state.mix(case.values[0], 1), state.sees_no_key), before, 1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.randn(2, 5, 31)}, "must be .batch, length, 32."),
        ({"memory": torch.randn(3, 5, 32)}, "batch 2 but memory has batch 3"),
        ({"memory": torch.randn(2, 5, 32), "causal": True}, "cannot be combined with a memory"),
        ({"key_padding_mask": torch.zeros(2, 4, dtype=torch.bool)}, r"\(batch, keys\) = \(2, 5\)"),
        ({"key_padding_mask": torch.zeros(2, 5)}, "must be bool"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused(arguments, message):
    layer = EvolvedAttention(32, 4, 3)
    with pytest.raises((ValueError, TypeError), match=message):
        layer.begin(**{"x": torch.randn(2, 5, 32), **arguments})


def test_bad_depth_and_values_are_refused():
    layer = EvolvedAttention(32, 4, 3)
    state = layer.begin(torch.randn(2, 5, 32))
    with pytest.raises(ValueError, match=r"1\.\.3"):
        layer(state, torch.randn(2, 5, 32), 4)
    with pytest.raises(ValueError, match="5 positions"):
        layer(state, torch.randn(2, 6, 32), 1)
    with pytest.raises(ValueError, match="even width"):
        EvolvedAttention(30, 4, 3)
    with pytest.raises(ValueError, match="unknown attention"):
        EvolvedAttention(32, 4, 3, backend="onec")
