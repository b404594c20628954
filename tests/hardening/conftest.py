"""Small trained runs to test with bad input, and a working folder."""

from pathlib import Path

import pytest

from hardening.runs import Runs, trained


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Runs:
    return trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def sandbox(tmp_path, monkeypatch, unchecked) -> Path:
    """The working folder: what a command writes by a relative name stays in it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
