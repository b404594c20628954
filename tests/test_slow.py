"""Checks that take minutes."""

import json
import time
from statistics import median

import pytest
import torch

from transevolve import EvolvedAttention
from transevolve.cli import main

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("training", "ratio"), [(False, 2.0), (True, 1.5)])
def test_once_is_faster_than_literal(training, ratio):
    """The limit leaves room for noise; measurements on an idle machine are in results/."""
    layer, x = EvolvedAttention(256, 8, 6), torch.randn(2, 1024, 256)
    seconds: dict[str, list[float]] = {"literal": [], "once": []}
    for _ in range(6):
        for backend, found in seconds.items():
            start = time.perf_counter()
            with torch.set_grad_enabled(training):
                state = layer.begin(x, backend=backend)
                y = sum(layer(state, x, l) for l in range(1, 7))
                if training:
                    y.sum().backward()
            found.append(time.perf_counter() - start)
    assert median(seconds["literal"][1:]) > ratio * median(seconds["once"][1:])


def test_sixty_five_thousand_tokens_fit(tmp_path):
    command = "bench memory --mode forward --systems fullFF-1:linear --lengths 65536 --batch 1 --output"
    assert main([*command.split(), str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "memory.json").read_text())["rows"]
    assert row["note"] is None
    assert row["peak_bytes"] < 8e9


@pytest.mark.parametrize(("backend", "growth"), [("linear", 2.2), ("fused", 2.2)])
def test_memory_grows_linearly(backend, growth, tmp_path):
    command = f"bench memory --systems fullFF-1:{backend} --lengths 4096 8192 --batch 1 --output"
    assert main([*command.split(), str(tmp_path)]) == 0
    short, long = json.loads((tmp_path / "memory.json").read_text())["rows"]
    assert long["peak_bytes"] < growth * short["peak_bytes"]
