import gc
import os
import signal

import hypothesis
import jaxtyping
import pytest
import torch

hypothesis.settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("default")
torch.set_num_threads(1)
SHAPES = {
    *("test_attention", "test_backends", "test_dropout", "test_golden", "test_huggingface", "test_low_precision"),
    *("test_models", "test_oracles", "test_peers", "test_peers_values", "test_rotation", "test_start"),
}
"""Modules in which calls are checked against the shapes of their signatures."""


def pytest_configure() -> None:
    """A shell starts background jobs with SIGINT ignored, and programs under test would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _separate_cache(tmp_path_factory):
    """Tests do not use the user's cache."""
    os.environ["TRANSEVOLVE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _reproducible():
    """Seeds every test, and fills uninitialized memory with NaN."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(autouse=True, scope="module")
def _shape_checks(request):
    """Shapes are checked in tests of mathematics only: checks double the time of decoding."""
    jaxtyping.config.update("jaxtyping_disable", request.module.__name__ not in SHAPES)


@pytest.fixture(autouse=True, scope="module")
def _fast_garbage_collection():
    """Every training collects garbage, which takes half a second if it includes the objects of all libraries."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def unchecked():
    """Disables shape checks, for tests of error messages and compilers."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def pytest_terminal_summary(terminalreporter) -> None:
    """Counts of the inputs that tests/hardening tried; of a parallel run, only this conftest sees the reports."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    reported = [
        value for report in reports for name, value in getattr(report, "user_properties", []) if name == "hardening"
    ]
    if reported:
        terminalreporter.section("hardening")
        for line in dict.fromkeys(reported):
            terminalreporter.write_line(line)
