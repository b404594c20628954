"""Slow tests of scale: sharded training over processes, and streams of a hundred thousand lines."""

import os
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from training_support import PATIENCE, losses, process, torchrun, train, training_of, write_csv
from transevolve.cli import main

pytestmark = pytest.mark.slow
MEMORY = ["--training.memory=2MB"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv")


def launched(csv: Path, run: Path, *more: str) -> subprocess.CompletedProcess:
    return torchrun("-m", "transevolve", "train", *training_of(csv, run, *more))


def test_sharded_over_two_processes_trains_as_one(csv, tmp_path, capsys):
    same = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=2"]
    assert train(*training_of(csv, tmp_path / "one", *same)) == 0
    done = launched(csv, tmp_path / "sharded", *same, "--training.fsdp=true")
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "sharded") == pytest.approx(losses(tmp_path / "one"), rel=1e-4)
    assert main(["predict", str(tmp_path / "sharded"), "a superb film"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("yes")


@pytest.mark.parametrize("caches", [("local-1", "local-2"), ("shared", "shared")])
def test_two_machines_with_a_cache_each_or_a_shared_one(caches, csv, tmp_path):
    same = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=1"]
    assert train(*training_of(csv, tmp_path / "one", *same)) == 0
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    joined = ["--nnodes=2", "--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"]
    command = ["-m", "transevolve", "train", *training_of(csv, tmp_path / "two", *same)]
    machines = [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *joined, f"--node-rank={rank}", *command],
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRANSEVOLVE_CACHE": str(tmp_path / cache)},
        )
        for rank, cache in enumerate(caches)
    ]
    assert [machine.wait(PATIENCE) for machine in machines] == [0, 0]
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    for cache in set(caches):
        assert len([path for path in (tmp_path / cache / "prepared").iterdir() if path.is_dir()]) == 1


MEASURED = """
import os, sys
from transevolve.cli import main
from transevolve.training import fit

def parts_within(*_):
    if os.environ["RANK"] != "0":
        raise RuntimeError("the second process measured for itself")
    return 3

fit.parts_within = parts_within
sys.exit(main(sys.argv[1:]))
"""


def test_processes_split_batches_as_the_first_one_measured(csv, tmp_path):
    same = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=1"]
    assert train(*training_of(csv, tmp_path / "one", *same, "--training.accumulation=3")) == 0
    (tmp_path / "program.py").write_text(MEASURED)
    done = torchrun(str(tmp_path / "program.py"), "train", *training_of(csv, tmp_path / "two", *same, *MEMORY))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each batch is processed in 3 parts") == 1
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)


def test_a_budget_of_memory_on_two_processes(csv, tmp_path):
    done = torchrun("-m", "transevolve", "train", *training_of(csv, tmp_path / "two", *MEMORY))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each batch is processed in") == 1


ZERO = """{"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto",
"train_micro_batch_size_per_gpu": "auto"}"""


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
def test_deepspeed_on_two_processes_trains_as_one(csv, tmp_path, monkeypatch):
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    (tmp_path / "zero2.json").write_text(ZERO)
    same = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=2", "--training.save_steps=3"]
    assert train(*training_of(csv, tmp_path / "one", *same)) == 0
    sharded = tmp_path / "sharded"
    zero = [*same, f"--training.deepspeed={tmp_path / 'zero2.json'}"]
    done = launched(csv, sharded, *zero)
    assert done.returncode == 0, done.stderr
    assert losses(sharded) == pytest.approx(losses(tmp_path / "one"), rel=1e-4)


def test_a_stream_of_a_hundred_thousand_lines_takes_constant_memory(csv, tmp_path):
    run = tmp_path / "run"
    assert train(*training_of(csv, run)) == 0
    running = process(["predict", str(run)], stdin=subprocess.PIPE)
    assert running.stdin is not None
    assert running.stdout is not None

    def feed(stream):
        for number in range(100_000):
            stream.write(f"a superb film {'the ' * (number % 20)}\n")
        stream.close()

    used, watched = [], psutil.Process(running.pid)
    with running:
        threading.Thread(target=feed, args=(running.stdin,), daemon=True).start()
        for number, _ in enumerate(running.stdout):
            if number % 5000 == 4999:
                used.append(watched.memory_info().rss)
    print(f"resident MB: {[round(u / 1e6) for u in used]}")
    assert running.returncode == 0
    assert len(used) == 20
    assert max(used[5:]) - used[4] < 30e6, [f"{u / 1e6:.0f}" for u in used]
