"""Environment variables that are set before torch is loaded; variables set by the user are not changed."""

import os
import subprocess
import sys

import pytest
import torch

from training_support import train, training_of, write_csv
from transevolve.core.environment import ALLOCATOR_VARIABLES, OPENMP_VARIABLES
from transevolve.core.machine import flushed_denormals
from transevolve.runs.folder import load_run_recipe
from transevolve.training.precision import choose_precision

SHOW = """
import os, sys
from transevolve.core.environment import tune_environment
if {loaded}: import types; sys.modules["torch"] = types.ModuleType("torch")
tune_environment()
print({{name: os.environ[name] for name in os.environ if name.startswith(("OMP_", "GOMP_", "MALLOC_"))}})
"""


def environment(loaded: bool = False, **variables: str) -> dict[str, str]:
    """The variables of a process that has tuned itself."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith((*ALLOCATOR_VARIABLES, *OPENMP_VARIABLES))}
    command = [sys.executable, "-c", SHOW.format(loaded=loaded)]
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=True)
    return eval(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_threads_sleep_and_memory_is_kept():
    found = environment()
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    assert found == waiting | {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776"}


def test_a_setting_of_the_user_is_kept():
    assert environment(OMP_WAIT_POLICY="ACTIVE")["OMP_WAIT_POLICY"] == "ACTIVE"
    assert "OMP_WAIT_POLICY" not in environment(GOMP_SPINCOUNT="100")
    assert set(environment(MALLOC_ARENA_MAX="2")) == {"MALLOC_ARENA_MAX", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}


def test_nothing_is_set_once_torch_is_loaded():
    assert environment(loaded=True) == {}


@pytest.mark.parametrize("has", [True, False])
def test_precision_auto_is_what_the_cpu_multiplies_in(has, monkeypatch):
    monkeypatch.setattr("transevolve.training.precision.cpu_multiplies_bfloat16", lambda: has)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    precision, reason = choose_precision("auto")
    assert precision == ("bf16" if has else "fp32")
    assert "bfloat16" in reason
    assert choose_precision("fp32") == ("fp32", None)


def test_a_run_keeps_its_precision_on_another_machine(tmp_path, monkeypatch, capsys):
    arguments = training_of(write_csv(tmp_path / "rows.csv"), tmp_path / "run", "--training.precision=auto")
    for has in (True, False):
        monkeypatch.setattr("transevolve.training.precision.cpu_multiplies_bfloat16", lambda has=has: has)
        assert train(*arguments) == 0
        assert load_run_recipe(tmp_path / "run").training.precision == "bf16"
    assert "already finished" in capsys.readouterr().err


def test_denormals_are_flushed_only_within():
    smallest = torch.tensor(2e-38)
    with flushed_denormals():
        assert smallest / 4 == 0
    assert smallest / 4 > 0


def test_training_flushes_denormals(tmp_path, monkeypatch):
    seen, step = [], torch.optim.AdamW.step
    smallest = torch.tensor(2e-38)
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *a, **k: (seen.append(float(smallest / 4)), step(*a, **k))[1])
    assert train(*training_of(write_csv(tmp_path / "rows.csv"), tmp_path / "run")) == 0
    assert seen
    assert not any(seen)
