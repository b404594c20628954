"""The README's words are true: its snippets run, its commands work, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from transevolve.cli import main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^transevolve (.+)$", TEXT, re.MULTILINE)


@pytest.mark.usefixtures("unchecked")
def test_python_snippets_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(snippets) >= 4
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_work(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    assert capsys.readouterr().out


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_links_lead_somewhere():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", TEXT):
        assert (ROOT / link).exists(), link


def test_demo(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "evolution.py"), "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "largest difference" in done.stdout
    assert (tmp_path / "evolution.png").stat().st_size > 10_000
