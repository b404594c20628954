"""Runs `graphs/` in a separate process without shape checks, which compilers cannot trace."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("chosen", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_compile_and_export(chosen):
    folder = Path(__file__).parent / "graphs"
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=--strict-markers", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "-m", chosen, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
