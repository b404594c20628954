"""Kills at the worst moments: every run ends bitwise equal to one that was not killed.

`TRANSEVOLVE_KILLS` is the number of kills, 200 by default.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from campaigns.attempts import Ended, attempt, outcome, window
from training_support import PATIENCE, training_of, weights, write_csv

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("TRANSEVOLVE_KILLS", "200"))
SETTINGS = {
    "validation after a checkpoint": ["--training.save_steps=2", "--training.epochs=3"],
    "one checkpoint kept": ["--training.save_steps=1", "--training.keep=1", "--training.epochs=2"],
    "a checkpoint an epoch": ["--training.epochs=3", "--training.patience=1"],
    "validation between": ["--training.eval_steps=3", "--training.save_steps=2", "--training.max_steps=7"],
}
MOST_IN_A_ROW = 8


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", rows=60)


def require_done(ended: Ended) -> None:
    assert ended.code == 0, ended.output


def chain(draw: random.Random, arguments: list[str], watched: Path, most: int) -> Counter:
    """Kills a command again and again, then lets it finish; returns the moments it was killed at."""
    moments: Counter = Counter()
    while moments.total() < most:
        name, now = window(draw, watched)
        ended = attempt(arguments, now)
        if not ended.killed:
            require_done(ended)
            return moments
        moments[name] += 1
    require_done(attempt(arguments))
    return moments


@pytest.mark.parametrize("name", SETTINGS)
def test_training(csv, tmp_path, name, record_property):
    draw, wanted = random.Random(name), -(-KILLS * 7 // 10 // len(SETTINGS))
    more = ["--model.dropout=0.1", "--training.batch_size=14", *SETTINGS[name]]
    require_done(attempt(["train", *training_of(csv, tmp_path / "undisturbed", *more)]))
    expected = outcome(tmp_path / "undisturbed")
    kills, runs, moments = 0, 0, Counter()
    while kills < wanted:
        run = tmp_path / f"run{runs}"
        found = chain(draw, ["train", *training_of(csv, run, *more)], run, min(MOST_IN_A_ROW, wanted - kills))
        assert outcome(run) == expected, f"killed at {dict(found)}"
        kills, runs, moments = kills + found.total(), runs + 1, moments + found
    record_property("hardening", f"{kills} kills in {runs} runs, {name}: {dict(moments)}")


def test_average(csv, tmp_path, record_property):
    run = tmp_path / "run"
    require_done(attempt(["train", *training_of(csv, run, "--training.save_steps=1", "--training.keep=5")]))
    require_done(attempt(["average", run, "--last", "4", "--output", tmp_path / "undisturbed"]))
    draw, kills, number = random.Random(0), 0, 0
    while kills < -(-KILLS // 5):
        number += 1
        output = tmp_path / "folder" / f"average{number}"
        moment = time.monotonic() + draw.uniform(0.02, 0.3)
        ended = attempt(
            ["average", run, "--last", "4", "--output", output],
            lambda moment=moment, output=output: time.monotonic() > moment and output.parent.exists(),
        )
        kills += ended.killed
        if not output.exists():
            require_done(attempt(["average", run, "--last", "4", "--output", output]))
        assert weights(output) == weights(tmp_path / "undisturbed")
        assert [path.name for path in output.parent.iterdir() if path.name.startswith(".")] == []
    record_property("hardening", f"{kills} kills of average in {number} starts")


RECIPE = """
data: {{path: {csv}}}
model: {{hidden_size: 16, num_attention_heads: 2, intermediate_size: 32, block_depth: 2}}
training: {{epochs: 2, batch_size: 16, learning_rate: 0.01, save_steps: 2}}
"""


def test_sweep(csv, tmp_path, record_property):
    """In half of the kills the training process is killed too, as by a batch system."""
    (tmp_path / "tiny.yaml").write_text(RECIPE.format(csv=csv))
    (tmp_path / "sweep.yaml").write_text(f"recipe: {tmp_path / 'tiny.yaml'}\nseeds: [0, 1]\n")

    def start(output: Path) -> subprocess.Popen:
        words = ["sweep", str(tmp_path / "sweep.yaml"), "--output", str(output)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([sys.executable, "-m", "transevolve", *words], **quiet)

    def trained(output: Path) -> dict[str, bytes]:
        return {path.parent.name: weights(path.parent) for path in output.glob("runs/*/results.json")}

    assert start(tmp_path / "undisturbed").wait() == 0
    expected = trained(tmp_path / "undisturbed")
    assert len(expected) == 2
    draw, kills, sweeps = random.Random(0), 0, 0
    while kills < -(-KILLS // 10):
        output = tmp_path / f"out{sweeps}"
        found = kill_sweep(draw, lambda output=output: start(output), output, -(-KILLS // 10) - kills)
        assert trained(output) == expected
        kills, sweeps = kills + found, sweeps + 1
    record_property("hardening", f"{kills} kills in {sweeps} sweeps")


def kill_sweep(draw: random.Random, start: Callable[[], subprocess.Popen], output: Path, most: int) -> int:
    """Kills a sweep soon after each new checkpoint until it is done or was killed `most` times; returns the kills."""
    for kills in range(most):
        running = start()
        before = len(list(output.glob("runs/*/checkpoints/*")))
        while running.poll() is None and len(list(output.glob("runs/*/checkpoints/*"))) <= before:
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.5))
        if running.poll() is not None:
            assert running.returncode == 0
            return kills
        trainings = psutil.Process(running.pid).children(recursive=True)
        running.kill()
        running.wait()
        for training in trainings if draw.random() < 0.5 else []:
            with suppress(psutil.NoSuchProcess):
                training.kill()
        assert not psutil.wait_procs(trainings, timeout=PATIENCE)[1], "a training outlives its sweep"
    assert start().wait() == 0
    return most
