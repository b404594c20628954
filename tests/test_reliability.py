"""Guarantees of training: kills, signals, full disks, damaged files, and diverging losses."""

import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from training_support import (
    PATIENCE,
    TORCHRUN,
    losses,
    metrics,
    process,
    result,
    torchrun,
    train,
    training_of,
    weights,
    write_csv,
)
from transevolve import (
    TransEvolveConfig,
    TransEvolveForConditionalGeneration,
    TransEvolveForSequenceClassification,
)
from transevolve.models.peer import PeerForSequenceClassification
from transevolve.models.peer_config import PeerConfig
from transevolve.peers import SYSTEMS
from transevolve.runs.storage import checkpoints
from transevolve.training.callbacks.signals import StopOnSignal

STEPS = ["--training.epochs=4", "--training.save_steps=3", "--model.dropout=0.1", "--training.accumulation=2"]
LONG = ["--training.epochs=400", "--training.save_steps=2"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv")


@pytest.fixture(scope="module")
def undisturbed(csv, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(csv, run)
    return run


def finish(csv: Path, run: Path) -> str:
    started = process(["train", *training_of(csv, run, *STEPS)])
    _, reported = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0, reported
    return reported


def wait_for_checkpoint(run: Path, running: subprocess.Popen, count: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(checkpoints(run / "checkpoints")) < count:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_ends_as_if_never_killed(csv, undisturbed, tmp_path):
    run = tmp_path / "run"
    running = process(["train", *training_of(csv, run, *STEPS)])
    wait_for_checkpoint(run, running)
    time.sleep(int.from_bytes(os.urandom(1)) / 2000)
    running.kill()
    running.communicate()
    assert not (run / "model.safetensors").exists(), "it was killed too late"
    reported = finish(csv, run)
    assert "resuming from" in reported
    assert weights(run) == weights(undisturbed)
    assert losses(run) == losses(undisturbed)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(csv, undisturbed, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run)
    for name in ("model.safetensors", "results.json", "manifest.json"):
        (run / name).unlink()
    newest = checkpoints(run / "checkpoints")[-1][1] / "optimizer.pt"
    newest.write_bytes(newest.read_bytes()[:-100])
    reported = finish(csv, run)
    assert f"{newest} is damaged" in reported
    assert "resuming from" in reported
    assert weights(run) == weights(undisturbed)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopped_run_saves_and_resumes(csv, tmp_path, number):
    run = tmp_path / "run"
    running = process(["train", *training_of(csv, run, *LONG, "--training.save_steps=1000000")])
    deadline = time.monotonic() + PATIENCE
    while not (run / "metrics.jsonl").exists() or not losses(run):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(number)
    _, reported = running.communicate(timeout=PATIENCE)
    assert running.returncode == 130
    assert "the same command resumes" in reported
    assert checkpoints(run / "checkpoints")
    row = metrics(run)[-1]
    assert "eval_loss" not in row or row["epoch"] == int(row["epoch"]), "it validated because it was stopped"


class Reentered(io.StringIO):
    """A stream that is interrupted by a signal handler during a write."""

    def write(self, text: str) -> int:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter>")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {"none": lambda: None, "closed": closed, "in use": Reentered}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_signal_stops_a_training_with_closed_output(stream, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", stream())
    with StopOnSignal() as stop:
        stop.training = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.asked
    assert capsys.readouterr().out == ""


def test_a_second_training_in_one_folder_is_refused(csv, tmp_path, capsys):
    run = tmp_path / "run"
    running = process(["train", *training_of(csv, run, *LONG)])
    wait_for_checkpoint(run, running)
    assert train(*training_of(csv, run, *LONG)) == 2
    assert f"is being trained by process {running.pid}" in capsys.readouterr().err
    running.kill()
    running.communicate()
    assert train(*training_of(csv, run, *LONG, "--training.epochs=1")) == 2
    assert "contains another training" in capsys.readouterr().err, "the crash left the lock behind"


def test_a_loss_that_is_not_a_number_stops_the_run(csv, tmp_path, capsys):
    more = ["--training.learning_rate=1e30", "--training.warmup=6", "--training.save_steps=1"]
    assert train(*training_of(csv, tmp_path / "run", *more)) == 2
    reported = capsys.readouterr().err
    assert "the loss became" in reported
    assert "learning_rate" in reported


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_last_good_checkpoint_kept(csv, tmp_path):
    run = tmp_path / "run"
    first = process(["train", *training_of(csv, run, *LONG)])
    wait_for_checkpoint(run, first)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=PATIENCE)
    kept = checkpoints(run / "checkpoints")[-1][0]

    def no_large_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    second = process(["train", *training_of(csv, run, *LONG)], preexec_fn=no_large_files)
    _, reported = second.communicate(timeout=PATIENCE)
    assert second.returncode == 2, reported
    assert "no space" in reported
    assert reported.strip().count("\n") < 12
    assert checkpoints(run / "checkpoints")[-1][0] == kept


# Warnings of torch about process groups that are not destroyed, and about an unnecessary search for unused parameters.
CARELESS = ["terminate called", "destroy_process_group() was not called", "find_unused_parameters"]


def test_two_processes_train_as_one(csv, tmp_path):
    same = ["--model.dropout=0", "--model.embedding_dropout=0", "--training.epochs=2", "--training.batch_size=15"]
    assert train(*training_of(csv, tmp_path / "one", *same)) == 0
    launched = torchrun("-m", "transevolve", "train", *training_of(csv, tmp_path / "two", *same))
    assert launched.returncode == 0, launched.stderr
    assert not [text for text in CARELESS if text in launched.stderr]
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    assert result(tmp_path / "two")["validation"] == pytest.approx(result(tmp_path / "one")["validation"], rel=1e-5)


PROGRAM = """
import atexit
import sys
import torch
from transevolve.core.errors import UserError
from transevolve.training.processes import decided_by_main, join_processes

atexit.register(lambda: sys.stdout.write(f"in a group: {{torch.distributed.is_initialized()}}\\n"))  # called last
state = join_processes()
sys.stdout.write(f"decided {{decided_by_main(state, lambda: 7 + state.process_index)}}\\n")

def refuse():
    raise UserError("no")

try:
    decided_by_main(state, refuse)
except UserError as error:
    sys.stdout.write(f"refused: {{error}}\\n")
sys.stdout.flush()
{end}
"""
ENDS = {"returns": "", "fails": "raise ValueError('failed')", "is interrupted": "raise KeyboardInterrupt"}


@pytest.mark.parametrize(
    "end", ["fails", *(pytest.param(end, marks=pytest.mark.slow) for end in ENDS if end != "fails")]
)
def test_processes_decide_together_and_leave_together(tmp_path, end):
    """On every way out the process group is destroyed, before its threads could outlive the interpreter."""
    (tmp_path / "program.py").write_text(PROGRAM.format(end=ENDS[end]))
    launched = torchrun(str(tmp_path / "program.py"))
    assert launched.stdout.count("decided 7") == 2, launched.stderr
    assert launched.stdout.count("refused: no") == 2
    assert (launched.returncode == 0) == (end == "returns")
    assert "in a group: False" in launched.stdout
    assert "in a group: True" not in launched.stdout
    assert not [text for text in CARELESS if text in launched.stderr]


@pytest.mark.slow
def test_torchrun_that_is_terminated_saves_and_leaves(csv, tmp_path):
    run = tmp_path / "run"
    words = [*TORCHRUN, "-m", "transevolve", "train", *training_of(csv, run, *LONG, "--training.save_steps=100000")]
    running = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    while not (run / "metrics.jsonl").exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.terminate()
    _, err = running.communicate(timeout=PATIENCE)
    assert "the same command resumes from there" in err
    assert checkpoints(run / "checkpoints")
    assert not [text for text in CARELESS if text in err]


VARIANTS = ["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"]
TINY = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 20}


def models(name: str) -> list[PreTrainedModel]:
    """A system's classifier; of TransEvolve's variants also the translator, with and without row operators."""
    if name in SYSTEMS:
        return [PeerForSequenceClassification(PeerConfig(system=name, num_labels=3, num_hidden_layers=2, **TINY))]
    heads = {TransEvolveForSequenceClassification: False, TransEvolveForConditionalGeneration: True}
    return [
        head(TransEvolveConfig.variant(name, num_labels=3, is_encoder_decoder=translates, row_operators=rows, **TINY))
        for head, translates in heads.items()
        for rows in (False, True)
    ]


@pytest.mark.parametrize("name", [*SYSTEMS, *VARIANTS])
def test_every_parameter_gets_a_gradient(name):
    """DDP is not asked to look for parameters that a step does not use."""
    for model in models(name):
        ids = torch.randint(4, 20, (2, 8))
        labels = ids if model.config.is_encoder_decoder else torch.tensor([0, 2])
        model.train()(input_ids=ids, labels=labels).loss.backward()
        assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
