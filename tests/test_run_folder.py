"""Run folders: which runs may use one, what is published in it, and damaged or malicious files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training_support import losses, metrics, result, train, training_of, weights, write_csv
from transevolve.cli import main
from transevolve.runs.metrics_file import MetricsFile
from transevolve.runs.results import seconds_per_epoch
from transevolve.runs.storage import checkpoints, write_manifest

STEPS = ["--training.epochs=3", "--training.save_steps=1", "--training.keep=30"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", rows=60)


@pytest.fixture(scope="module")
def finished(csv, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert train(*training_of(csv, run, *STEPS)) == 0
    return run


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A copy of the run whose model is not published yet."""
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    for name in ("model.safetensors", "results.json", "manifest.json"):
        (copy / name).unlink()
    return copy


def as_recorded(run: Path) -> list[dict]:
    """The metrics without times."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in metrics(run)]


def resumed(csv: Path, run: Path, finished: Path) -> None:
    """Resumes the run, which must end like one that was not interrupted."""
    assert train(*training_of(csv, run, *STEPS)) == 0
    assert weights(run) == weights(finished)
    assert as_recorded(run) == as_recorded(finished)
    assert result(run)["best_step"] == result(finished)["best_step"]


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_validation_that_is_missing_is_made(csv, run, finished, epoch):
    """The checkpoint of an epoch has no validation, and later checkpoints are missing, as after a kill."""
    steps = max(step for step, _ in checkpoints(run / "checkpoints")) // 3
    for step, path in checkpoints(run / "checkpoints"):
        if step > epoch * steps:
            shutil.rmtree(path)
    newest = checkpoints(run / "checkpoints")[-1][1]
    older = checkpoints(run / "checkpoints")[-2][1]
    state, before = (json.loads((path / "trainer_state.json").read_text()) for path in (newest, older))
    state |= {name: before[name] for name in ("best_global_step", "best_metric", "best_model_checkpoint")}
    state["log_history"] = [row for row in state["log_history"] if "loss" in row or row["step"] < state["global_step"]]
    (newest / "trainer_state.json").write_text(json.dumps(state))
    write_manifest(newest)
    resumed(csv, run, finished)


def test_every_checkpoint_of_an_epochs_end_is_validated(finished):
    for _, path in checkpoints(finished / "checkpoints"):
        state = json.loads((path / "trainer_state.json").read_text())
        if state["epoch"] % 1 == 0:
            assert "eval_accuracy" in state["log_history"][-1], path


def test_a_training_that_was_finished_takes_no_further_step(csv, tmp_path):
    more = [*STEPS, "--training.max_steps=5"]
    assert train(*training_of(csv, tmp_path / "run", *more)) == 0
    before = weights(tmp_path / "run"), metrics(tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    assert train(*training_of(csv, tmp_path / "run", *more)) == 0
    assert (weights(tmp_path / "run"), metrics(tmp_path / "run")) == before
    assert checkpoints(tmp_path / "run" / "checkpoints")[-1][0] == 5


def test_a_damaged_best_checkpoint_is_reported_and_another_selected(csv, run, finished, capsys):
    best = result(finished)["best_step"]
    scores = {row["step"]: row["eval_accuracy"] for row in metrics(run) if "eval_accuracy" in row}
    del scores[best]
    (run / "checkpoints" / f"checkpoint-{best}" / "model.safetensors").write_bytes(b"damaged")
    assert best != checkpoints(run / "checkpoints")[-1][0]
    assert train(*training_of(csv, run, *STEPS)) == 0
    assert f"checkpoint-{best}, the best so far, is damaged" in capsys.readouterr().err
    assert scores[result(run)["best_step"]] == max(scores.values())


def test_only_the_damaged_line_of_metrics_is_dropped(csv, run, finished, capsys):
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], '{"step": 3, "ep\n', *lines[2:]]))
    assert train(*training_of(csv, run, *STEPS)) == 0
    assert f"{path}: skipped damaged line 2" in capsys.readouterr().err
    assert len(result(run)["epochs"]) == 3


def test_a_line_of_metrics_without_a_step_is_damaged(tmp_path, capsys):
    good = '{"step": 1, "epoch": 0.5, "seconds": 2, "loss": 0.25}\n'
    (tmp_path / "metrics.jsonl").write_text(f'{good}{{"loss": 1}}\n{{"step": "x", "epoch": 1, "seconds": 1}}\n{{"st')
    metrics = MetricsFile(tmp_path)
    metrics.drop_after(1)
    assert "skipped damaged line 2, 3" in capsys.readouterr().err
    assert (tmp_path / "metrics.jsonl").read_text() == good


def test_runs_shorter_than_an_interval_of_logging_have_loss_and_speed(csv, tmp_path):
    run = tmp_path / "run"
    assert train(*training_of(csv, run, "--training.epochs=1", "--training.log_steps=1000")) == 0
    assert len(losses(run)) == 1
    assert result(run)["tokens_per_second"] > 0


def test_a_validation_of_a_short_run_is_not_multiplied():
    """Two steps of sixteen in a second, then 135 s of validation: the other fourteen take 7 s."""
    steps = {"step": 2, "epoch": 0.125, "seconds": 1.0, "loss": 0.5}
    assert seconds_per_epoch([steps, {"step": 2, "epoch": 0.125, "seconds": 136.0, "eval_loss": 0.5}]) == 143.0
    two = [{"step": n * 8, "epoch": n / 2, "seconds": n * 10.0, "loss": 0.5} for n in (1, 2, 3, 4)]
    two.append({"step": 32, "epoch": 2.0, "seconds": 50.0, "eval_loss": 0.5})
    assert seconds_per_epoch(two) == pytest.approx(25.0)


OTHER = {
    "settings of a system": (
        ["--model.system=linformer"],
        "--model.settings={rank: 8}",
        "model.settings was None",
    ),
    "threads": ([], "--training.threads=2", "training.threads was 0, is 2"),
    "learning rate": ([], "--training.learning_rate=0.5", "training.learning_rate was"),
}


@pytest.mark.parametrize(("same", "other", "message"), OTHER.values(), ids=OTHER)
def test_other_settings_are_another_training(csv, tmp_path, capsys, same, other, message):
    settings = training_of(csv, tmp_path / "run", "--training.epochs=1", *same)
    assert train(*settings) == 0
    assert train(*settings) == 0
    assert train(*settings, other) == 2
    assert f"contains another training ({message}" in capsys.readouterr().err


INFINITE = ["--training.learning_rate=1e30", "--training.encoder_rate=1e30"]  # weights, after a finite loss
NOT_A_NUMBER = {
    "published": ["--training.max_steps=1", "--training.learning_rate=1e20"],
    "saved before validation": ["--training.max_steps=3", "--training.save_steps=1", *INFINITE],
}


@pytest.mark.parametrize("more", NOT_A_NUMBER.values(), ids=NOT_A_NUMBER)
def test_a_model_that_is_not_a_number_is_neither_saved_nor_published(csv, tmp_path, capsys, more):
    run = tmp_path / "run"
    assert train(*training_of(csv, run, "--training.warmup=0", *more)) == 2
    assert "the last good checkpoint is kept" in capsys.readouterr().err
    assert not (run / "model.safetensors").exists()
    assert not checkpoints(run / "checkpoints")
    assert train(*training_of(csv, run)) == 0, "what cannot be resumed claims nothing"


NONSENSE = ["--training.epochs=.inf", "--training.lr_max=1e400", "--training.learning_rate=1e400", "--training.eps=-1"]


@pytest.mark.parametrize("setting", NONSENSE)
def test_invalid_settings_claim_no_folder(csv, tmp_path, capsys, setting):
    run = tmp_path / "run"
    assert train(*training_of(csv, run, setting)) == 2
    assert setting.removeprefix("--").split("=")[0] in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.parametrize("known", ["schedule", "optimizer"])
def test_unknown_schedules_and_optimizers_are_named(csv, tmp_path, capsys, known):
    assert train(*training_of(csv, tmp_path / "run", f"--training.{known}=nothing")) == 2
    assert f"unknown training.{known} 'nothing'; available:" in capsys.readouterr().err


def test_a_run_killed_before_the_first_step_can_be_replaced(csv, tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    for name in (".transevolve.lock", ".transevolve.owner", ".transevolve-0123456789abcdef.tmp"):
        (run / name).write_text("process 1")
    assert train(*training_of(csv, run, "--training.epochs=1")) == 0
    assert not list(run.glob(".transevolve-*"))


@pytest.mark.parametrize("name", [".lock", ".part", ".recipe.yaml.part", "notes.txt", "recipe.yaml"])
def test_a_users_file_is_neither_changed_nor_trained_over(csv, tmp_path, name):
    run = tmp_path / "run"
    run.mkdir()
    (run / name).write_text("data: {path: mine.csv}\n")
    assert train(*training_of(csv, run)) == 2
    assert [p.name for p in run.iterdir()] == [name]
    assert (run / name).read_text() == "data: {path: mine.csv}\n"


LINKS = [".lock", ".transevolve.lock", ".transevolve.owner", "recipe.yaml", "metrics.jsonl", "curves.png"]
LINKS += [
    "results.json",
    "manifest.json",
    "checkpoints",
    "checkpoints/.partial",
    "model.safetensors",
    ".recipe.yaml.part",
]


@pytest.mark.parametrize("name", [*LINKS[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in LINKS[2:])])
def test_no_planted_link_is_followed_in_training(csv, run, tmp_path, name):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("precious")
    link = run / name
    if link.is_dir():
        link.rename(precious / "moved")
        link.symlink_to(precious)
    else:
        link.unlink(missing_ok=True)
        link.symlink_to(precious if name.endswith(".partial") else precious / "file")
    before = {p.relative_to(precious) for p in precious.rglob("*")}
    shutil.rmtree(checkpoints(run / "checkpoints")[-1][1]) if name != "checkpoints" else None
    assert train(*training_of(csv, run, *STEPS)) in (0, 2)
    assert (precious / "file").read_text() == "precious"
    assert {p.relative_to(precious) for p in precious.rglob("*")} == before


AFTERWARDS = {
    "evaluate": (["evaluate", "RUN", "--split", "validation"], "validation.evaluation.json"),
    "explain": (["explain", "RUN", "a superb film"], "explain.html"),
}


@pytest.mark.parametrize(("command", "written"), AFTERWARDS.values(), ids=AFTERWARDS)
def test_no_planted_link_is_followed_afterwards(finished, tmp_path, command, written):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in (written, f".{written}.part"):
        (run / name).symlink_to(precious)
    assert main([str(run) if word == "RUN" else word for word in command]) == 0
    assert precious.read_text() == "precious"
    assert (run / written).read_text() != "precious"


def test_an_empty_manifest_does_not_pass(finished, tmp_path, capsys):
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text('{"sha256": {}}')
    assert main(["predict", str(tmp_path / "run"), "x"]) == 2
    assert "it lists no model" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_link_to_itself_is_a_missing_file(finished, tmp_path, capsys, name):
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).symlink_to(tmp_path / "run" / name)
    assert main(["predict", str(tmp_path / "run"), "x"]) == 2
    shown = capsys.readouterr().err
    assert "missing" in shown or "has no model" in shown


def test_weights_outside_the_folder_are_not_read(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / "model.safetensors").rename(run / "model-1.safetensors")
    shutil.copyfile(run / "model-1.safetensors", tmp_path / "outside.safetensors")
    index = {"metadata": {}, "weight_map": {"classifier.weight": "../outside.safetensors"}}
    (run / "model.safetensors.index.json").write_text(json.dumps(index))
    names = json.loads((run / "manifest.json").read_text())["sha256"]
    more = ["model-1.safetensors", "model.safetensors.index.json"]
    write_manifest(run, [*(n for n in names if n != "model.safetensors"), *more])
    assert main(["predict", str(run), "x"]) == 2
    assert "'../outside.safetensors', which is not a file of its folder" in capsys.readouterr().err


CLOSED = {"a pipe": "| true", "standard output": ">&-", "both": ">&- 2>&-", "both pipes": "2>&1 | true"}
SLOW = [pytest.mark.slow]


@pytest.mark.parametrize(
    "closed", [pytest.param(c, id=name, marks=[] if name == "both pipes" else SLOW) for name, c in CLOSED.items()]
)
def test_closed_output_is_not_an_error(csv, finished, closed):
    words = " ".join(training_of(csv, finished, *STEPS))
    script = f"set -o pipefail; {sys.executable} -m transevolve train {words} {closed}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rror" not in done.stderr
