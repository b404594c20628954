"""Small trained runs to put bad input into, a folder to work in, and the counts at the end."""

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


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    told = [
        value for report in reports for name, value in getattr(report, "user_properties", []) if name == "hardening"
    ]
    if told:
        terminalreporter.section("hardening")
        for line in dict.fromkeys(told):
            terminalreporter.write_line(line)
