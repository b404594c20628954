"""The command line through its door: what it answers, and how it complains."""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Literal

import pytest
import torch

import transevolve
from transevolve.cli import main
from transevolve.config.command_line import POSITIONAL, parse
from transevolve.core.errors import UserError
from transevolve.evolution.backends import BACKENDS
from transevolve.models.settings import VARIANTS
from transevolve.peers import SYSTEMS
from transevolve_cli import COMMANDS

HELP = """
import sys
from transevolve_cli import main
code = main(["--help"])
assert not {"torch", "transformers", "matplotlib"} & set(sys.modules)
sys.exit(code)
"""


@dataclass
class Inner:
    """A group.

    Args:
        path: Where it is.
    """

    path: str | None = None


@dataclass
class Sample:
    """One of everything.

    Args:
        run: Which run.
        text: What to say.
        kind: Which kind.
        count: How many.
        quiet: Say less.
        lengths: How long.
        data: The data.
    """

    run: str = field(metadata=POSITIONAL)
    text: list[str] = field(default_factory=list, metadata=POSITIONAL)
    kind: Literal["small", "large"] = "small"
    count: int | None = None
    quiet: bool = False
    lengths: list[int] = field(default_factory=lambda: [1, 2])
    data: Inner = field(default_factory=Inner)


def parsed(*arguments: str) -> Sample | None:
    return parse(Sample, list(arguments), "program", "summary")


def test_help_is_quick_and_imports_nothing_heavy():
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - start < 3
    for name in COMMANDS:
        assert name in done.stdout


def test_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "transevolve", "--version"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split() == ["transevolve", transevolve.__version__], done.stderr


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_its_options(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    assert f"transevolve {name}" in capsys.readouterr().out


def test_a_group_lists_its_commands(capsys):
    assert main(["bench"]) == 0
    assert "bench memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sytems"], "unknown command 'sytems'; did you mean 'systems'?"),
        (["bench", "sped"], "unknown command 'bench sped'; did you mean 'speed'?"),
        (["--verison"], "unknown option '--verison' before a command"),
        (["bench", "speed", "--lenghts", "8"], "unknown option '--lenghts'; did you mean '--lengths'?"),
        (["bench", "speed", "--size", "smal"], "--size: 'smal' is not 'small' or 'base'; did you mean 'small'?"),
        (["bench", "speed", "--threads", "two"], "--threads: 'two' is not a whole number"),
        (["bench", "speed", "--lengths", "8", "x"], "--lengths: 'x' is not a whole number"),
        (["bench", "speed", "stray"], "unexpected argument 'stray'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, told, capsys):
    assert main(arguments) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1


def test_debug_shows_the_traceback(capsys):
    assert main(["sytems", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_systems_lists_every_variant_backend_and_peer(capsys):
    assert main(["systems"]) == 0
    shown = capsys.readouterr().out
    for name in [*VARIANTS, *BACKENDS, *SYSTEMS]:
        assert name in shown
    assert "NeurIPS 2017" in shown
    assert "n^2 d" in shown


def test_doctor_reports_versions_memory_and_what_auto_chooses(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    for expected in (torch.__version__, "free memory", "free disk", "512", "65536", "ready"):
        assert expected in shown


def test_options_are_parsed_into_their_dataclass():
    found = parsed(
        "run", "a", "b", "--kind", "large", "--count", "3", "--quiet", "--lengths", "4", "5", "--data.path", "f"
    )
    assert found == Sample("run", ["a", "b"], "large", 3, True, [4, 5], Inner("f"))


def test_options_have_defaults():
    assert parsed("run") == Sample("run")


def test_help_comes_from_the_docstring(capsys):
    assert parsed("--help") is None
    shown = capsys.readouterr().out
    for line in ("Which run.", "How long.", "Where it is."):
        assert line in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "run"),
        (["run", "--data.pth", "f"], "did you mean '--data.path'"),
        (["run", "--count", "1.5"], "--count: '1.5' is not a whole number"),
        (["run", "--cou", "1"], "unknown option '--cou'"),
    ],
)
def test_wrong_options_are_the_users_error(arguments, told):
    with pytest.raises(UserError, match=told):
        parsed(*arguments)
