"""The README: its snippets run, its commands work, and its links have targets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs_support import ROOT, blocks, commands, run, write_files

README = ROOT / "README.md"
TEXT = README.read_text()


@pytest.mark.usefixtures("unchecked")
def test_python_snippets_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = [block.content for block in blocks(README) if block.language == "python"]
    assert len(snippets) >= 1
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the files that the README names."""
    return write_files(tmp_path_factory.mktemp("user"))


def test_commands_work_in_order(folder, monkeypatch):
    """Runs commands as printed, but trains models of width 16 for one epoch."""
    monkeypatch.chdir(folder)
    found = commands(README)
    assert len(found) >= 12
    for words in found:
        run(words)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_links_have_a_target():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link


def test_demo(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "evolution.py"), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "largest difference" in done.stdout
    assert (tmp_path / "evolution.png").stat().st_size > 10_000
