"""Everything runs on a GPU: no tensor is created elsewhere, only the reads in `reads` occur, and types are kept.

There is no GPU here: PyTorch's fake tensors know device, shape and type, and fail where two devices meet.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from fake_device import DEVICE, backward, fake_gpu, low_precision
from peers_cases import SMALL
from support import KINDS, Case, make_case
from transevolve.config.recipe import TrainingOptions
from transevolve.evolution.backends import BACKENDS
from transevolve.models.build import build_peer, build_transevolve
from transevolve.peers import SYSTEMS
from transevolve.training.optimizer import build_optimizer

pytestmark = pytest.mark.usefixtures("unchecked", "_values_do_not_matter")
TINY = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
PRECISIONS = [
    pytest.param(None, id="fp32"),
    pytest.param(torch.bfloat16, id="bf16"),
    pytest.param(torch.float16, id="fp16", marks=pytest.mark.slow),
]
every_precision = pytest.mark.parametrize("low", PRECISIONS)


@pytest.fixture
def _values_do_not_matter():
    torch.use_deterministic_algorithms(False)


def everything_is_there(tensors) -> bool:
    return all(str(t.device) == DEVICE for t in tensors)


@every_precision
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_layers(backend, kind, low):
    case = make_case(kind, backend=backend, dropout=0.1)
    with fake_gpu() as gpu:
        move = gpu.tensor
        memory = None if case.memory is None else move(case.memory)
        values = [move(v) for v in case.values]
        there = Case(gpu.module(case.layer), move(case.x), memory, move(case.padding), values, case.causal)
        with low_precision(low):
            y = there.run()
        grads = backward(y)
        inputs = [there.x, *there.values, *there.layer.parameters()]
        assert y.dtype == (low or torch.float32)
        assert everything_is_there([y, *(grads[id(p)] for p in inputs)])
        assert all(grads[id(p)].dtype == p.dtype for p in inputs)
        assert gpu.reads in ([], ["drift"])


def a_training_step(model, inputs, low, gpu) -> None:
    """Forward, backward and optimizer, as in training."""
    model = gpu.module(model).train()
    inputs = {name: gpu.tensor(x) for name, x in inputs.items()}
    with low_precision(low):
        loss = model(**inputs).loss
    grads = backward(loss)
    for p in model.parameters():
        p.grad = grads.get(id(p))
    build_optimizer(model, TrainingOptions()).step()
    assert everything_is_there([loss, *grads.values()])
    assert all(p.grad is not None and p.grad.dtype == p.dtype for p in model.parameters() if p.requires_grad)
    assert loss.dtype == torch.float32


def batch(labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    ids, mask = torch.randint(3, 40, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[1, 7:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids if labels is None else labels}


HEADS = {
    "ForSequenceClassification": torch.tensor([0, 1, 2]),
    "ForTokenClassification": torch.zeros(3, 12, dtype=torch.long),
    "ForMaskedLM": None,
    "ForCausalLM": None,
    "ForConditionalGeneration": None,
}


@every_precision
@pytest.mark.parametrize("head", list(HEADS))
@pytest.mark.parametrize("variant", ["fullFF-2", "randomFF-1"])
def test_heads_train_with_one_read(head, variant, low):
    labels = {"num_labels": 3} if "Classification" in head else {}
    model = build_transevolve(head, variant, attention="once", block_depth=2, **TINY, **labels)
    with fake_gpu() as gpu:
        a_training_step(model, batch(HEADS[head]), low, gpu)
    assert gpu.reads == ["drift"]


@pytest.mark.parametrize("low", PRECISIONS[:2])
@pytest.mark.parametrize("system", list(SYSTEMS))
def test_systems_train_without_a_read(system, low):
    """Only FNet reads lengths, once per layer; layers of LazyFormer share work."""
    layers = 2 if system in ("fnet", "lazyformer") else 1
    shape = {**TINY, "num_labels": 3, "num_hidden_layers": layers, "max_position_embeddings": 48}
    model = build_peer("ForSequenceClassification", system, system_settings=SMALL.get(system), **shape)
    with fake_gpu() as gpu:
        a_training_step(model, batch(HEADS["ForSequenceClassification"]), low, gpu)
    assert gpu.reads == (["frequencies"] * 2 if system == "fnet" else [])


@pytest.mark.parametrize("low", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_decoding_with_a_cache(backend, low):
    """A source, then three steps of two beams each, reordered between them."""
    model = build_transevolve("ForConditionalGeneration", attention=backend, block_depth=2, **TINY).eval()
    with fake_gpu() as gpu, torch.no_grad():
        model = gpu.module(model)
        source, mask = gpu.tensor(batch()["input_ids"]), gpu.tensor(batch()["attention_mask"])
        cache = model.new_cache(8)
        for _ in range(3):
            tokens = torch.ones(6, 1, dtype=torch.long, device=DEVICE)
            with low_precision(low):
                out = model(source, mask, decoder_input_ids=tokens, past_key_values=cache)
            cache.reorder_cache(torch.arange(6, device=DEVICE))
        assert everything_is_there([out.logits])
    assert gpu.reads.count("drift") <= 1


def test_a_wide_drift_repeats_the_pass():
    """The flag is collected over both blocks and read once; then the pass is repeated."""
    model = build_transevolve("ForSequenceClassification", "fullFF-2", attention="once", num_labels=3, **TINY)
    with fake_gpu({"drift": 1.0}) as gpu:
        a_training_step(model, batch(HEADS["ForSequenceClassification"]), None, gpu)
    assert gpu.reads == ["drift"]


def test_a_read_that_is_not_listed_fails():
    with fake_gpu(), pytest.raises(DataDependentOutputException):
        torch.ones((), device=DEVICE).item()


SOURCE = Path(__file__).parents[1] / "src" / "transevolve"
PLACES = [
    ("evolution/backends/tiles.py", r"torch\.arange\(tile\.keys, device=scores\.device\)", "torch.arange(tile.keys)"),
    pytest.param("evolution/masks.py", r", device=device\)", ")", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("file", "pattern", "replacement"), PLACES)
def test_a_tensor_on_the_wrong_device_is_found(file, pattern, replacement, tmp_path):
    """`test_layers` fails on a copy of the package without one `device=`."""
    copy = tmp_path / "transevolve"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    text, count = re.subn(pattern, replacement, (copy / file).read_text(), count=1)
    assert count == 1
    (copy / file).write_text(text)
    tests = [f"{__file__}::test_layers[{backend}-causal-fp32]" for backend in ("once", "literal")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(tmp_path), "PATH": ""}
    )
    assert done.returncode == 1
    assert "device" in done.stdout.lower()
