"""Compiled and exported programs give the same numbers as eager models."""

import copy
import itertools

import pytest
import torch

from support import KINDS, Case, make_case
from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration, TransEvolveForSequenceClassification
from transevolve.evolution.backends import BACKENDS

EVERY = [pytest.param(name, marks=[] if name == "once" else pytest.mark.slow) for name in BACKENDS]
TINY = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "block_depth": 2}


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch.compiler.reset()


def classifier(backend: str, feedforward: str = "full") -> TransEvolveForSequenceClassification:
    torch.manual_seed(0)
    config = TransEvolveConfig(**TINY, attention=backend, feedforward=feedforward, num_labels=3)
    return TransEvolveForSequenceClassification(config).eval()


def batch(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 40, (rows, length), generator=torch.Generator().manual_seed(rows * length))
    mask = torch.arange(length) < torch.arange(length, length - rows, -1)[:, None].clamp(min=1)
    return ids, mask.long()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", EVERY)
def test_layer_compiles_whole(backend, kind):
    case = make_case(kind, backend=backend)

    def run(x, memory, padding, values):
        return Case(case.layer, x, memory, padding, values, case.causal).run()

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    expected, found = case.run(), compiled(case.x, case.memory, case.padding, case.values)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(case.gradients(found), case.gradients(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("feedforward", ["full", pytest.param("random", marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", EVERY)
def test_classifier_exports_with_any_batch_and_length(backend, feedforward):
    model = classifier(backend, feedforward)
    rows, length = torch.export.Dim("rows", min=1, max=64), torch.export.Dim("length", min=2, max=4096)
    shape = {0: rows, 1: length}
    program = torch.export.export(
        model, batch(2, 6), dynamic_shapes={"input_ids": shape, "attention_mask": shape}, strict=False
    )
    for size in [(1, 3), (2, 6), (5, 33)]:
        with torch.no_grad():
            expected = model(*batch(*size)).logits
            found = program.module()(*batch(*size)).logits
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", EVERY)
def test_training_step_compiles(backend):
    model = classifier(backend, "random").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    compiled = torch.compile(model, backend="aot_eager")
    ids, mask = batch(3, 9)
    labels = torch.tensor([0, 1, 2])
    expected = model(ids, mask, labels=labels).loss
    found = compiled(ids, mask, labels=labels).loss
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters), rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled_training_redraws_features():
    torch.manual_seed(0)
    config = TransEvolveConfig(**TINY, attention="linear", feature_redraw_interval=2, dropout=0.0)
    model = TransEvolveForSequenceClassification(config).train()
    compiled = torch.compile(copy.deepcopy(model), backend="eager")
    ids, mask = batch(2, 7)
    logits = [compiled(ids, mask).logits for _ in range(5)]
    for found in logits:
        torch.testing.assert_close(found, model(ids, mask).logits, rtol=1e-5, atol=1e-5)
    assert [torch.equal(a, b) for a, b in itertools.pairwise(logits)] == [True, False, True, False]
    torch.testing.assert_close(compiled.eval()(ids, mask).logits, model.eval()(ids, mask).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", EVERY)
def test_translation_compiles(backend):
    torch.manual_seed(0)
    model = TransEvolveForConditionalGeneration(TransEvolveConfig(**TINY, attention=backend)).eval()
    ids, mask = batch(2, 7)
    target, _ = batch(2, 5)
    with torch.no_grad():
        expected = model(ids, mask, target).logits
        found = torch.compile(model, backend="aot_eager")(ids, mask, target).logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
