"""Sweeps: many trainings, one table; a failure is a note in its row; finished cases are not trained again."""

import json
import os
import shlex
import signal
import time

import psutil
import pytest

from training_support import PATIENCE, process, train, training_of, write_csv
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.training import precision
from transevolve.training import sweep as sweeps
from transevolve.training.train import train as train_recipe

RECIPE = """
data: {{path: {csv}}}
model: {{hidden_size: 16, num_attention_heads: 2, intermediate_size: 32, block_depth: 2}}
training: {{epochs: 1, batch_size: 16, learning_rate: 0.01}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE.format(csv=write_csv(tmp_path / "reviews.csv")))
    return tmp_path


def trained_here(recipe) -> str | None:
    try:
        train_recipe(sweeps.load_recipe(recipe), "transevolve sweep")
    except UserError as error:
        return str(error)
    return None


def test_the_bag_of_words_is_a_row_of_the_table():
    result = {"parameters": 1, "selected_by": "accuracy", "validation": {"accuracy": 0.5}, "test": {"accuracy": 0.6}}
    result |= {"seconds_per_epoch": 1.0, "tokens_per_second": 1.0, "seconds": 3600.0}
    result |= {"machine": {"threads": "2"}}
    scores = {"logistic_regression": {"validation": 0.4, "test": 0.3}, "naive_bayes": {"validation": 0.2, "test": 0.1}}
    outcome = sweeps.Outcome({}, [{**result, "yardstick": scores}])
    columns, rows = sweeps.table([outcome])
    assert rows[0][columns.index("core-hours")] == "2.00"
    assert [row[0] for row in rows[1:]] == ["bag of words, logistic regression", "bag of words, naive bayes"]
    assert rows[1][3:5] == ["0.4000", "0.3000"]


def test_one_table_over_rows_and_seeds(folder, monkeypatch, capsys):
    """Trains in this process; tests that stop or kill sweeps use separate processes."""
    monkeypatch.setattr(sweeps, "train_case", trained_here)
    (folder / "sweep.yaml").write_text(
        f"recipe: {folder / 'tiny.yaml'}\n"
        "rows:\n  - {model.variant: fullFF-1, seeds: [0, 1]}\n  - {model.num_attention_heads: 3}\n"
        "seeds: [0]\n"
    )
    out = folder / "out"
    assert main(["sweep", str(folder / "sweep.yaml"), "--output", str(out)]) == 0
    reported = capsys.readouterr()
    assert "does not split" in reported.out
    cases = json.loads((out / "sweep.json").read_text())["cases"]
    assert [len(case["results"]) for case in cases] == [2, 0]
    assert {r["seed"] for r in cases[0]["results"]} == {0, 1}
    assert "±" in (out / "sweep.md").read_text()
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/variant*/model.safetensors")}
    assert len(before) == 2
    assert main(["sweep", str(folder / "sweep.yaml"), "--output", str(out)]) == 0
    assert {p: p.stat().st_mtime_ns for p in before} == before


def cases(folder, content: str, monkeypatch, *more: str) -> list[sweeps.Recipe]:
    """The recipes that the cases of a sweep would be trained with."""
    (folder / "sweep.yaml").write_text(f"recipe: {folder / 'tiny.yaml'}\n{content}")
    trained = []
    monkeypatch.setattr(sweeps, "train_case", lambda path: trained.append(sweeps.load_recipe(path)) or "not trained")
    main(["sweep", str(folder / "sweep.yaml"), "--output", str(folder / "out"), *more])
    return trained


def test_recorded_cases_are_not_trained_again(folder, monkeypatch, capsys):
    """Another machine can use the records: only missing cases are trained, and the table has all cases."""
    (folder / "sweep.yaml").write_text(f"recipe: {folder / 'tiny.yaml'}\nrows: [{{}}, {{training.warmup: 0.2}}]\n")
    kept, trained = folder / "records", []

    def counted(path):
        trained.append(path.stem)
        return trained_here(path)

    monkeypatch.setattr(sweeps, "train_case", counted)
    command = ["sweep", str(folder / "sweep.yaml"), "--records", str(kept)]
    assert main([*command, "--no-train"]) == 2
    assert f"no case is recorded in {kept}" in capsys.readouterr().err
    assert main([*command, "--output", str(folder / "one")]) == 0
    assert trained == ["recipe-seed0", "warmup=0.2-seed0"]
    assert sorted(path.stem for path in kept.glob("*seed0.json")) == trained
    record = (kept / "warmup=0.2-seed0.json").read_text()
    assert "--training.warmup=0.2 --data.path=reviews.csv" in json.loads(record)["results"]["command"]
    assert str(folder) not in record + (kept / "sweep.json").read_text()
    (kept / "warmup=0.2-seed0.json").unlink()
    assert main([*command, "--output", str(folder / "two"), "--no-train"]) == 0
    assert [len(case["results"]) for case in json.loads((kept / "sweep.json").read_text())["cases"]] == [1, 0]
    assert main([*command, "--output", str(folder / "two"), "--set", f"data.path={folder / 'reviews.csv'}"]) == 0
    assert trained[2:] == ["warmup=0.2-seed0"]
    assert [len(case["results"]) for case in json.loads((kept / "sweep.json").read_text())["cases"]] == [1, 1]
    capsys.readouterr()
    assert main([*command, "--set", "training.learning_rate=0.5"]) == 2
    assert "recorded with training.learning_rate 0.01, not 0.5" in capsys.readouterr().err


def test_a_sweep_can_be_estimated_before_it_is_trained(folder, monkeypatch, capsys):
    (folder / "sweep.yaml").write_text(
        f"recipe: {folder / 'tiny.yaml'}\nsettings: {{training.precision: auto}}\n"
        "rows: [{model.variant: fullFF-1, seeds: [0, 1]}, {model.system: transformer}]\n"
    )
    monkeypatch.setattr(precision, "cpu_multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(sweeps, "train_case", lambda path: pytest.fail("it must not train"))
    kept = folder / "records"
    command = ["sweep", str(folder / "sweep.yaml"), "--output", str(folder / "out"), "--records", str(kept), "--plan"]
    assert main(command) == 0
    assert "core-hours" in capsys.readouterr().out
    cases = json.loads((kept / "plan.json").read_text())["cases"]
    assert [(case["system"], case["seeds"], case["precision"]) for case in cases] == [
        ("fullFF-1", 2, "bf16"),
        ("transformer", 1, "bf16"),
    ]
    assert all(case["seconds"] > 0 < case["core_seconds"] and case["steps"] > 0 for case in cases)
    assert not (folder / "out" / "runs").exists()


def test_a_table_of_records_needs_their_folder(folder, capsys):
    (folder / "sweep.yaml").write_text(f"recipe: {folder / 'tiny.yaml'}\n")
    assert main(["sweep", str(folder / "sweep.yaml"), "--no-train"]) == 2
    assert "--records" in capsys.readouterr().err


def test_a_grid_may_contain_seeds(folder, monkeypatch, capsys):
    recipes = cases(folder, "grid: {training.seed: [1, 2], model.size: [small, base]}", monkeypatch)
    assert [(r.training.seed, r.model.size) for r in recipes] == [(1, "small"), (1, "base"), (2, "small"), (2, "base")]
    assert len({r.output for r in recipes}) == 4


def test_settings_stay_typed_from_the_file_to_the_case(folder, monkeypatch, capsys):
    content = "settings: {data.label: 1e3, model.settings: {rank: 3}}\nrows: [{data.text: '#x', training.epochs: 2}]"
    (recipe,) = cases(folder, content, monkeypatch, "--set", "training.learning_rate=1e-2", "data.test=no")
    assert (recipe.data.label, recipe.data.text, recipe.data.test) == ("1e3", "#x", "no")
    assert (recipe.model.settings, recipe.training.epochs) == ({"rank": 3}, 2.0)
    assert (recipe.training.learning_rate, recipe.training.batch_size) == (0.01, 16)


def test_the_record_contains_machine_and_settings(folder):
    run = folder / "run"
    assert train(*training_of(write_csv(folder / "my data.csv"), run, "--training.max_steps=2")) == 0
    result = json.loads((run / "results.json").read_text())
    words = shlex.split(result["command"])
    assert words[:2] == ["transevolve", "train"]
    assert f"--data.path={folder / 'my data.csv'}" in words
    result["machine"]["device"] = "a device of its own"
    (folder / "out").mkdir()
    outcome = sweeps.Outcome({}, [result])
    sweeps.write_tables(sweeps.Sweep("demo", {"training.epochs": 1.0}), folder / "out", [outcome])
    header = json.loads((folder / "out" / "sweep.json").read_text())["header"]
    assert header["device"] == "a device of its own"
    assert header["recipe"] == "demo training.epochs=1.0"
    assert {"torch", "commit"} <= set(header)


@pytest.fixture
def running(folder):
    """A sweep in the middle of its first training, and the process of that training."""
    (folder / "sweep.yaml").write_text(f"recipe: {folder / 'tiny.yaml'}\nsettings: {{training.epochs: 5000}}\n")
    sweep = process(["sweep", str(folder / "sweep.yaml"), "--output", str(folder / "out")])
    run, deadline = folder / "out" / "runs" / "recipe-seed0", time.monotonic() + PATIENCE
    while not list(run.glob("checkpoints/checkpoint-*")) and time.monotonic() < deadline and sweep.poll() is None:
        time.sleep(0.2)
    (child,) = [c for c in psutil.Process(sweep.pid).children() if "transevolve.training.case" in c.cmdline()]
    yield sweep, child, run
    for one in (sweep, child):
        if one.poll() is None if one is sweep else one.is_running():
            one.kill()
    sweep.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sweep_that_is_stopped_lets_its_training_save(running, number):
    sweep, child, run = running
    os.kill(sweep.pid, number)
    _, reported = sweep.communicate(timeout=PATIENCE)
    assert sweep.returncode == 130
    assert "saved at step" in reported
    assert "Traceback" not in reported
    assert not child.is_running()
    saved = int(reported.split("saved at step ")[1].split(";")[0].replace(",", ""))
    assert (run / "checkpoints" / f"checkpoint-{saved}" / "manifest.json").is_file()


def test_a_killed_sweep_stops_its_training(running):
    sweep, child, _ = running
    sweep.kill()
    gone, left = psutil.wait_procs([child], timeout=PATIENCE)
    assert gone
    assert not left


BAD = {
    "unknown key": ("recipe: demo\nrow: []", "did you mean 'rows'?"),
    "unknown setting": ("recipe: demo\nrows: [{model.varant: fullFF-1}]", "did you mean 'model.variant'?"),
    "no recipe": ("rows: []", "'recipe' must name"),
    "unknown recipe": ("recipe: demmo", "did you mean 'demo'?"),
    "seeds that are words": ("recipe: demo\nseeds: [one]", "seeds: 'one' is not an integer"),
    "a row's seeds that are words": ("recipe: demo\nrows: [{seeds: [x]}]", "'seeds' must be whole numbers: 'x'"),
    "a value of the wrong type": (
        "recipe: demo\ngrid: {training.epochs: [1, x]}",
        "training.epochs: 'x' is not a number",
    ),
    "a value out of range": ("recipe: demo\nrows: [{training.beams: 0}]", "training.beams: must be at least 1"),
    "an empty grid": ("recipe: demo\ngrid: {training.epochs: []}", "there is no case"),
    "no rows": ("recipe: demo\nrows: []", "there is no case"),
    "a section": ("recipe: demo\nrows: [{training: {epochs: 1}}]", "name a setting in it"),
    "seeds twice": ("recipe: demo\nseeds: [1]\ngrid: {training.seed: [1, 2]}", "exclude each other"),
    "rows that are no mappings": ("recipe: demo\nrows: [abc]", "'abc' is not a mapping"),
}


@pytest.mark.parametrize(("content", "complaint"), BAD.values(), ids=BAD)
def test_a_wrong_sweep_is_one_line(tmp_path, capsys, content, complaint):
    (tmp_path / "sweep.yaml").write_text(content)
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--output", str(tmp_path / "out")]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
