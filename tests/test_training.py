"""From a file to a trained model, through the command line."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from training_support import counted_checksums, losses, metrics, result, train, training_of, weights, write_csv
from transevolve.cli import main
from transevolve.config.files import load_recipe
from transevolve.training.optimizer import paper_learning_rate


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv")


@pytest.fixture(scope="module")
def run(csv, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert train(*training_of(csv, folder, "--training.epochs=4")) == 0
    return folder


def test_learns_and_leaves_a_report(run):
    found = result(run)
    assert found["validation"]["accuracy"] >= 0.9
    assert found["selected_on"].startswith("validation, cut from train")
    assert [row["epoch"] for row in found["epochs"]] == [1, 2, 3, 4]
    assert found["parameters"] > found["parameters_without_embedding"] > 0
    assert found["command"]
    assert found["machine"]["torch"]
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_hugging_face_loads_the_run(run):
    tokenizer = AutoTokenizer.from_pretrained(run)
    model = AutoModelForSequenceClassification.from_pretrained(run).eval()
    logits = model(**tokenizer(["a superb film", "awful and weak"], padding=True, return_tensors="pt")).logits
    assert [model.config.id2label[i] for i in logits.argmax(-1).tolist()] == ["yes", "no"]


def test_no_pickle_is_written(run):
    names = {p.name for p in run.rglob("*") if p.is_file()}
    assert "training_args.bin" not in names
    assert all(torch.load(p, weights_only=True) is not None for p in run.rglob("*.pt") if p.name == "optimizer.pt")


def test_the_resolved_recipe_is_a_recipe(run, csv, tmp_path):
    again = tmp_path / "again"
    assert train(run / "recipe.yaml", f"--output={again}") == 0
    assert weights(again) == weights(run)


def test_a_finished_run_is_not_trained_again(run, csv, capsys):
    before = weights(run), (run / "metrics.jsonl").read_bytes()
    assert train(*training_of(csv, run, "--training.epochs=4")) == 0
    assert "already finished" in capsys.readouterr().err
    assert (weights(run), (run / "metrics.jsonl").read_bytes()) == before


def test_another_training_in_the_same_folder_is_refused(run, csv, capsys):
    assert train(*training_of(csv, run, "--training.epochs=5")) == 2
    assert "training.epochs was 4.0, is 5.0" in capsys.readouterr().err


def test_predicts_in_order(run, capsys):
    assert main(["predict", str(run), "a superb film", "awful and weak", ""]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines[:2]] == ["yes", "no"]
    assert len(lines) == 3


def test_predicts_json(run, capsys):
    assert main(["predict", str(run), "--json", "a superb film"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["label"] == "yes"
    assert found["probabilities"].keys() == {"yes", "no"}
    assert sum(found["probabilities"].values()) == pytest.approx(1)


def test_predicts_what_looks_like_options(run, capsys):
    assert main(["predict", str(run), "--", "-h", "--debug", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_names_that_look_like_something_else(tmp_path, capsys):
    """A column with almost the recognized name next to it; labels and a run with markup in their names."""
    rows = ["text,#label,label", *["superb,[/x],a", "awful,[bold],a"] * 20]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    run = tmp_path / "[red]run"
    assert train(*training_of(tmp_path / "data.csv", run, "--data.label", "#label", "--training.epochs=1")) == 0
    assert "[red]run" in capsys.readouterr().out
    assert main(["evaluate", str(run), "--split", "validation"]) == 0
    shown = capsys.readouterr()
    assert "[/x]" in shown.out
    assert "[bold]" in shown.out


def test_predicts_a_file_as_its_lines(run, tmp_path, capsys):
    good, bad = "superb lovely great", "awful poor terrible"
    texts = [f"{good if n % 3 else bad} film{' the' * (n % 8)}" for n in range(100)]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    assert main(["predict", str(run), "--json", "--file", str(tmp_path / "texts.txt"), "--batch_tokens", "64"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(["predict", str(run), "--json", *texts]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["probabilities"]["yes"] for row in found] == pytest.approx(
        [row["probabilities"]["yes"] for row in printed], abs=1e-5
    )
    assert [row["label"] for row in found] == ["yes" if n % 3 else "no" for n in range(100)]


def test_evaluates_as_training_did(run, capsys):
    assert main(["evaluate", str(run), "--split", "validation", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] == result(run)["validation"]["accuracy"]
    assert sum(map(sum, found["confusion"])) == found["count"] == 12
    assert {score["label"] for score in found["classes"]} == {"yes", "no"}


def test_evaluates_another_file(run, tmp_path, capsys):
    other = write_csv(tmp_path / "other.csv", rows=30, seed=7)
    assert main(["evaluate", str(run), "--file", str(other), "--output", str(tmp_path / "scores")]) == 0
    assert "precision" in capsys.readouterr().out
    assert (tmp_path / "scores" / "other.csv.confusion.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_is_evaluated_by_the_columns_of_training(run, tmp_path, capsys):
    """`label` would be recognized first."""
    other = tmp_path / "other.csv"
    other.write_text("label,comment,verdict\n7,a superb film,yes\n8,awful and weak,no\n")
    assert main(["evaluate", str(run), "--file", str(other), "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "accuracy 1.0000" in shown.out
    assert shown.err.startswith("other.csv: 2 rows")
    assert "train" not in shown.err
    assert "selected" not in shown.err


def test_training_ends_with_what_to_do_next(run, csv, capsys):
    assert train(*training_of(csv, run, "--training.epochs=4")) == 0
    shown = capsys.readouterr().out
    for command in ("predict", "evaluate", "explain", "export"):
        assert f"transevolve {command} {run}" in shown


def test_the_resolved_recipe_has_every_value_that_was_used(run):
    recipe, config = load_recipe(run / "recipe.yaml"), AutoConfig.from_pretrained(run)
    assert (recipe.data.tokenizer, recipe.data.vocab_size, recipe.data.max_length) == ("wordpiece", 16000, 512)
    assert (recipe.model.variant, recipe.model.dropout) == ("fullFF-1", config.dropout)
    assert (recipe.training.batch_size, recipe.training.accumulation) == (16, 1)


def test_a_setting_left_out_is_the_default_not_what_the_run_has(run, csv, capsys):
    """`TINY` sets the width, so a command without it describes another model, whatever the run's recipe contains."""
    words = [word for word in training_of(csv, run, "--training.epochs=4") if "hidden_size" not in word]
    assert train(*words) == 2
    assert "model.hidden_size was 16, is None" in capsys.readouterr().err


def test_the_resolved_recipe_names_the_recognized_columns(run):
    recipe = (run / "recipe.yaml").read_text()
    assert "text: comment" in recipe
    assert "label: verdict" in recipe


def test_evaluation_reads_the_models_checksum_once(run, tmp_path, monkeypatch):
    summed = counted_checksums(monkeypatch)
    assert main(["evaluate", str(run), "--split", "validation", "--output", str(tmp_path)]) == 0
    assert summed.count("model.safetensors") == 1
    summed.clear()
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "hf")]) == 0
    assert summed.count("model.safetensors") == 1


def test_label_smoothing_changes_the_loss_of_a_classifier(csv, tmp_path):
    for system in ("transevolve", "fnet"):
        for smoothing in ("0", "0.2"):
            more = [f"--model.system={system}", f"--model.label_smoothing={smoothing}", "--training.max_steps=2"]
            assert train(*training_of(csv, tmp_path / system / smoothing, *more)) == 0
        assert losses(tmp_path / system / "0.2") != losses(tmp_path / system / "0")


def test_a_run_records_its_data(tmp_path, monkeypatch, capsys):
    """From any directory, and only if the files have the contents that it was trained on."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    path = write_csv(Path("reviews.csv"), rows=60)
    command = training_of(path, Path("run"), "--training.epochs=1")
    assert train(*command) == 0
    reported = capsys.readouterr().err
    assert "6 rows of validation\n" in reported
    assert "rows of test" not in reported
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["evaluate", "../run", "--split", "validation"]) == 0
    monkeypatch.chdir(tmp_path)
    write_csv(path, rows=60, seed=1)
    capsys.readouterr()
    assert train(*command) == 2
    assert "finished, and data.path changed since then (reviews.csv still has 61 lines" in capsys.readouterr().err
    assert main(["evaluate", "run", "--split", "validation"]) == 2
    assert "data.path changed since the training of run started" in capsys.readouterr().err
    assert main(["evaluate", "run", "--file", str(path)]) == 0
    Path("run/results.json").unlink()
    before = {p: p.stat().st_mtime_ns for p in Path("run").rglob("*") if p.name != ".lock"}
    capsys.readouterr()
    assert train(*command) == 2
    assert "data.path changed since the training of run started: restore the file" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in before if p.is_file()} == {p: t for p, t in before.items() if p.is_file()}


WITHOUT_DROPOUT = ["--model.dropout=0", "--model.embedding_dropout=0"]


@pytest.mark.parametrize("parts", [3, pytest.param(2, marks=pytest.mark.slow)])
def test_accumulation_gives_the_same_result(csv, tmp_path, parts):
    for name, more in (("whole", []), ("parts", [f"--training.accumulation={parts}"])):
        assert train(*training_of(csv, tmp_path / name, *WITHOUT_DROPOUT, *more)) == 0
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-5)


@pytest.mark.slow
def test_a_memory_budget_finds_the_accumulation(tmp_path, capsys):
    long = write_csv(tmp_path / "long.csv", rows=40, words=300)
    assert train(*training_of(long, tmp_path / "run", "--training.max_steps=2", "--training.memory=12MB")) == 0
    reported = capsys.readouterr().err
    assert 1 < int(reported.split("processed in ")[1].split()[0]) <= 16


def test_too_little_memory_is_reported(tmp_path, capsys):
    long = write_csv(tmp_path / "long.csv", rows=40, words=60)
    assert train(*training_of(long, tmp_path / "run", "--training.memory=100kB", "--training.batch_size=1")) == 2
    assert "is too small: one row of" in capsys.readouterr().err


def test_learning_rates_are_the_papers(csv, tmp_path):
    more = ["--training.schedule=paper", "--training.lr_max=0.5", "--training.warmup=4", "--training.log_steps=1"]
    assert train(*training_of(csv, tmp_path / "run", *more)) == 0
    rows = [row for row in metrics(tmp_path / "run") if "loss" in row]
    expected = [paper_learning_rate(row["step"], 0.5, 16, 4) for row in rows]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected)
    assert max(expected) > expected[0]
    assert max(expected) > expected[-1]


def test_stops_early_and_for_good(csv, tmp_path):
    """Also if it is killed between its last validation and its report."""
    run = tmp_path / "run"
    command = training_of(csv, run, "--training.epochs=30", "--training.patience=2")
    assert train(*command) == 0
    first, rows, trained = result(run), metrics(run), weights(run)
    assert len(first["epochs"]) < 30
    for name in ("results.json", "manifest.json", "model.safetensors"):
        (run / name).unlink()
    assert train(*command) == 0
    assert metrics(run) == rows
    assert weights(run) == trained
    assert result(run)["epochs"] == first["epochs"]


@pytest.mark.parametrize("refit", [False, True])
def test_the_average_is_kept_if_it_validates_better(csv, tmp_path, monkeypatch, refit):
    from safetensors.torch import load_file

    from transevolve.training.run import Run

    for better in (False, True):
        monkeypatch.setattr(Run, "better", lambda *_, better=better: better)
        run = tmp_path / f"run-{better}"
        options = ("--training.average=3", "--training.save_steps=2", "--training.keep=1", f"--training.refit={refit}")
        assert train(*training_of(csv, run, *options)) == 0
        found = result(run)["average"]
        assert found["used"] == better
        assert len(found["steps"]) == 3
        trained = run / "refit" if refit else run
        newest = sorted((trained / "checkpoints").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[-3:]
        parts = [load_file(path / "model.safetensors") for path in newest]
        for name, value in load_file(run / "model.safetensors").items():
            mean = sum(part[name].double() for part in parts) / 3
            alike = torch.equal(value.double(), mean.to(value.dtype).double())
            assert alike == better or torch.equal(parts[0][name], parts[2][name])


def test_seeds_decide(csv, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert train(*training_of(csv, tmp_path / name, f"--training.seed={seed}")) == 0
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")


def test_what_another_system_does_not_use_is_reported(csv, tmp_path, capsys):
    more = ["--model.system=transformer", "--model.variant=fullFF-1", "--model.evolution=none"]
    assert train(*training_of(csv, tmp_path / "run", *more)) == 0
    assert "model.variant, model.evolution: not used by transformer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ["--model.variant=randomFF-2"],
        ["--model.attention=linear"],
        ["--model.system=transformer"],
        ["--training.precision=bf16"],
        ["--training.gradient_checkpointing=true"],
        ["--training.batch_size=null", "--training.batch_tokens=64"],
        ["--training.schedule=cosine", "--training.clip=1", "--training.weight_decay=0.01"],
        ["--training.select=loss", "--training.eval_steps=3", "--training.save_steps=2"],
        ["--data.tokenizer=char", "--data.max_length=40"],
    ],
    ids=lambda more: " ".join(more),
)
def test_trains_with(csv, tmp_path, more):
    assert train(*training_of(csv, tmp_path / "run", "--training.epochs=1", *more)) == 0
    assert result(tmp_path / "run")["validation"]["accuracy"] >= 0


def test_tensorboard_has_every_step_once_after_a_kill(csv, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    settings = training_of(csv, run, "--training.epochs=2", "--training.tensorboard=true")
    assert train(*settings) == 0
    last = max((run / "checkpoints").iterdir(), key=lambda p: int(p.name.partition("-")[2]))
    shutil.rmtree(last)
    (run / "results.json").unlink()
    assert train(*settings) == 0
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    assert [point.value for point in events.Scalars("eval/accuracy")] == [
        pytest.approx(row["accuracy"]) for row in result(run)["epochs"]
    ]


@pytest.mark.skipif(find_spec("deepspeed") is not None, reason="DeepSpeed is installed here")
def test_a_missing_package_is_named(csv, tmp_path, capsys):
    (tmp_path / "zero2.json").write_text("{}")
    assert train(*training_of(csv, tmp_path / "run", f"--training.deepspeed={tmp_path / 'zero2.json'}")) == 2
    assert "pip install deepspeed" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


BAD = {
    "missing file": (["--data.path=nothing.csv"], "nothing.csv"),
    "wrong type": (["--training.epochs=many"], "--training.epochs: 'many' is not a number"),
    "unknown key": (["--training.epoch=3"], "did you mean '--training.epochs'?"),
    "unknown system": (["--model.system=transfromer"], "did you mean 'transformer'?"),
    "unknown variant": (["--model.variant=fullFF-3"], "did you mean 'fullFF-"),
    "odd heads": (["--model.num_attention_heads=3"], "does not split"),
    "both batch sizes": (["--training.batch_tokens=100"], "exclude each other"),
    "no epochs": (["--training.epochs=0"], "training.epochs: must be in (0"),
    "share as warm-up of the paper": (["--training.schedule=paper", "--training.warmup=0.1"], "in steps"),
    "a metric of translation": (["--training.select=bleu"], "'accuracy', 'loss', 'macro_f1'"),
    "not a size": (["--training.memory=much"], "training.memory"),
    "no file for DeepSpeed": (["--training.deepspeed=none.json"], "training.deepspeed: no file 'none.json'"),
    "a wrong column": (["--data.text=review"], "'comment'"),
}


@pytest.mark.parametrize(("more", "reported"), BAD.values(), ids=BAD)
def test_bad_settings_are_reported_in_one_line(csv, tmp_path, capsys, more, reported):
    assert train(*training_of(csv, tmp_path / "run", *more)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("transevolve: error: ")
    assert reported in error


RECIPES = {
    "unknown key": ("training: {epoch: 3}", "unknown key 'training.epoch'; did you mean 'training.epochs'?"),
    "wrong type": ("training: {epochs: many}", "'many' is not a number"),
    "not settings": ("- 1\n- 2", "a list"),
    "not YAML": ("training: {epochs: 3", "not valid YAML"),
    "a group without settings": ("training: 3", "'training' must contain settings"),
    "an object to build": ("training: !!python/object/apply:os.system ['true']", "not valid YAML"),
    "not text": ("\xff\xfe", "UTF-8"),
}


@pytest.mark.parametrize(("content", "reported"), RECIPES.values(), ids=RECIPES)
def test_bad_recipes_are_reported_in_one_line(tmp_path, capsys, content, reported):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_bytes(content.encode("latin-1"))
    assert train(recipe, f"--output={tmp_path / 'run'}") == 2
    assert reported in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_not_a_run_is_not_changed(csv, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    assert train(*training_of(csv, tmp_path)) == 2
    assert "not a run" in capsys.readouterr().err
    assert main(["predict", str(tmp_path), "x"]) == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_a_damaged_model_is_not_used(run, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    content = bytearray(weights(copy))
    content[-5] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    assert main(["predict", str(copy), "x"]) == 2
    assert "model.safetensors is damaged" in capsys.readouterr().err


def test_an_unseen_label_is_named(run, tmp_path, capsys):
    other = tmp_path / "other.csv"
    other.write_text("comment,verdict\nfine film,perhaps\n")
    assert main(["evaluate", str(run), "--file", str(other)]) == 2
    assert "perhaps" in capsys.readouterr().err
