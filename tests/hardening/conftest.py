"""Small trained runs to put bad input into, and a folder to work in."""

from pathlib import Path

import jaxtyping
import pytest

from hardening.runs import Runs, trained


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Runs:
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return trained(tmp_path_factory.mktemp("trained"))
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def sandbox(tmp_path, monkeypatch, unchecked) -> Path:
    """The working folder: what a command writes by a relative name stays in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
