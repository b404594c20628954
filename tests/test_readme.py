"""The README's words are true: its snippets run, its commands work, its links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from training_support import write_csv
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


SMALL = ["--model.hidden_size=16", "--model.num_attention_heads=2", "--model.intermediate_size=32"]
SMALL += ["--training.epochs=1", "--data.vocab_size=300"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the files that the README names."""
    folder = tmp_path_factory.mktemp("user")
    write_csv(folder / "my.csv", rows=60)
    for name, words in (("a.en", "one two three four"), ("a.de", "eins zwei drei vier")):
        lines = [" ".join(words.split()[: 1 + n % 4]) for n in range(60)]
        (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "ag_news").mkdir()
    for split in ("train", "test"):
        rows = [json.dumps({"text": f"news of the day {n % 7}", "label": n % 4}) for n in range(80)]
        (folder / "ag_news" / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def test_commands_work_in_order(folder, monkeypatch, capsys):
    """As printed; trainings, whose time is their size, with a model of width 16 and one epoch."""
    monkeypatch.chdir(folder)
    assert len(COMMANDS) >= 14
    for command in COMMANDS:
        words = shlex.split(command)
        assert main([*words, *SMALL] if words[0] == "train" else words) == 0, command
        assert capsys.readouterr().out, command


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
