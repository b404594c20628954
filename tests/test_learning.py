"""A text classifier with default settings: the chosen defaults, records, baselines, and resumption."""

import gzip
import json
import re

import numpy as np
import pytest
import torch

import transevolve
from training_support import result, train, weights, write_csv
from transevolve.cli import main
from transevolve.config.files import load_recipe
from transevolve.config.learning import bag_defaults
from transevolve.explain.observe import Observer
from transevolve.kinds.bag_start import rows_within
from transevolve.runs.folder import load_run_recipe

QUICK = ["--model.hidden_size=16", "--training.batch_size=16"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv")


@pytest.fixture(scope="module")
def run(csv, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert train("--data.path", csv, "--output", folder, *QUICK) == 0
    return folder


def test_what_was_decided_is_recorded(run):
    recipe = load_run_recipe(run)
    assert recipe.model.initialization == "bag"
    assert (recipe.model.pooling, recipe.model.drop_unseen, recipe.model.position_scale) == ("weighted", True, 0.1)
    assert recipe.training.epochs == bag_defaults(108, 1000, 2)["training.epochs"]
    filled = json.loads((run / "data.json").read_text())["filled"]
    assert "training.epochs" in filled
    assert "training.batch_size" not in filled
    assert json.loads((run / "config.json").read_text())["pooling"] == "weighted"


def test_a_run_with_pairs_predicts_what_it_scored(csv, tmp_path, capsys):
    run = tmp_path / "run"
    assert train("--data.path", csv, "--output", run, *QUICK, "--model.bigrams=512") == 0
    model = transevolve.load(run).model
    assert (model.head.bigrams.owner >= 0).sum() > 20
    assert model.head.bigrams.weight.abs().max() > 0
    assert result(run)["validation"]["accuracy"] == 1.0


def test_a_run_with_pairs_is_quantized_and_explained_and_reads_windows(csv, tmp_path, capsys):
    run = tmp_path / "run"
    more = ["--model.bigrams=512", "--data.long=window", "--data.max_length=8"]
    assert train("--data.path", csv, "--output", run, *QUICK, *more) == 0
    assert main(["quantize", str(run), "--output", str(tmp_path / "int8")]) == 0
    assert main(["explain", str(run), "the film was great", "--output", str(tmp_path / "page.html")]) == 0
    texts = ["the film was great", "it was awful and weak " * 5]
    loaded = [transevolve.load(folder) for folder in (run, tmp_path / "int8")]
    assert torch.equal(*(one.model.head.bigrams.weight for one in loaded))
    found, other = ([p.probabilities["yes"] for p in one.predict(texts)] for one in loaded)
    assert found[0] > 0.5 > found[1]
    assert other == pytest.approx(found, abs=0.05)
    assert Observer(run).observe(texts[0]).readout[-1].max() == pytest.approx(found[0], abs=1e-3)


@pytest.mark.parametrize(
    ("tokens", "classes", "slots"), [(4_999_999, 2, 0), (5_000_000, 2, 65_536), (5_000_000, 1, 0), (5_000_000, 17, 0)]
)
def test_pairs_are_for_many_tokens_and_few_classes(tokens, classes, slots):
    assert bag_defaults(25_000, tokens, classes)["model.bigrams"] == slots


def test_the_same_command_finds_its_run_and_another_setting_is_refused(run, csv, capsys):
    assert train("--data.path", csv, "--output", run, *QUICK) == 0
    assert "already finished" in capsys.readouterr().err
    assert train("--data.path", csv, "--output", run, *QUICK, "--training.epochs=7") == 2
    assert "training.epochs was 5.0, is 7.0" in capsys.readouterr().err


def test_a_start_from_many_rows_takes_some_of_them(csv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("transevolve.kinds.bag_start.MOST_TOKENS", 300)
    assert train("--data.path", csv, "--output", tmp_path / "run", *QUICK, "--training.max_steps=2") == 0
    found = re.search(r"class weights are computed from (\d+) of 108 training rows", capsys.readouterr().err)
    assert 10 < int(found[1]) < 60


def test_rows_are_drawn_up_to_a_number_of_tokens():
    lengths = np.array([5, 1, 7, 3])
    drawn = [rows_within(lengths, limit, 0) for limit in range(20)]
    assert all(lengths[rows].sum() <= limit for limit, rows in enumerate(drawn) if limit >= 7)
    assert [len(rows) for rows in (drawn[0], drawn[16], drawn[19])] == [1, 4, 4]
    assert all((np.diff(rows) > 0).all() for rows in drawn)


def test_a_setting_that_was_named_cannot_be_left_out(run, csv, capsys):
    assert train("--data.path", csv, "--output", run, "--model.hidden_size=16") == 2
    assert "training.batch_size was 16, is None" in capsys.readouterr().err


def test_the_model_is_trained_again_on_all_rows(run, capsys):
    found = result(run)
    assert found["refit"]
    rows = [json.loads(line) for line in (run / "refit" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["epoch"] == 5
    assert rows[-1]["step"] == 5 * -(-120 // 16)


def test_a_score_on_rows_of_the_training_says_so(run, csv, tmp_path, capsys):
    before = result(run)["validation"]["accuracy"]
    assert main(["evaluate", str(run), "--split", "validation", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().err
    assert "trained on the rows of validation: expect worse scores on new data; before `training.refit`," in shown
    assert f"accuracy {before:.4f}" in shown
    assert json.loads((tmp_path / "validation.evaluation.json").read_text())["trained_on"]
    assert main(["evaluate", str(run), "--file", str(csv), "--output", str(tmp_path)]) == 0
    assert "trained on" not in capsys.readouterr().err


def test_a_run_stopped_in_the_second_training_ends_as_if_never_stopped(run, csv, tmp_path):
    copy = tmp_path / "run"
    assert train("--data.path", csv, "--output", copy, *QUICK) == 0
    assert weights(copy) == weights(run)
    (copy / "results.json").unlink()
    newest = max((copy / "refit" / "checkpoints").iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))
    (newest / "model.safetensors").write_bytes(b"")
    assert train("--data.path", csv, "--output", copy, *QUICK) == 0
    assert weights(copy) == weights(run)
    assert result(copy)["test"] == result(run)["test"]


def test_the_bag_of_words_is_shown_and_recorded(csv, tmp_path, capsys):
    command = ["--data.path", csv, "--data.test", csv, *QUICK, "--training.epochs=1"]
    assert train(*command, "--output", tmp_path / "with") == 0
    assert "bag of words: logistic regression 100.0, naive Bayes 100.0, " in capsys.readouterr().err
    found = result(tmp_path / "with")["yardstick"]
    assert found["logistic_regression"] == {"validation": 1.0, "test": 1.0}
    assert train(*command, "--training.yardstick=false", "--output", tmp_path / "without") == 0
    assert "bag of words" not in capsys.readouterr().err
    assert result(tmp_path / "without")["yardstick"] is None


def test_a_bag_of_words_that_is_ahead_is_reported_with_advice(csv, tmp_path, capsys):
    poor = ["--model.initialization=authors", "--training.learning_rate=0", "--training.epochs=1"]
    assert train("--data.path", csv, "--output", tmp_path / "run", *QUICK, "--model.num_attention_heads=2", *poor) == 0
    assert "the bag of words scores better than the model" in capsys.readouterr().err


def test_explicit_settings_are_kept(tmp_path):
    for name in ("authors", "bag"):
        overrides = {"data.path": "x.csv", "model.initialization": name, "training.epochs": 2}
        assert load_recipe(None, overrides).model.initialization == name


@pytest.mark.parametrize("system", ["transformer", "linformer"])
def test_other_systems_get_the_same_start(csv, tmp_path, system):
    assert train("--data.path", csv, "--output", tmp_path / "run", *QUICK, f"--model.system={system}") == 0
    assert result(tmp_path / "run")["validation"]["accuracy"] == 1.0


UNLABELLED = {
    "texts.txt": lambda lines: "\n".join(lines).encode(),
    "texts.txt.gz": lambda lines: gzip.compress("\n".join(lines).encode()),
    "texts.jsonl": lambda lines: "\n".join(json.dumps({"comment": line, "n": 1}) for line in lines).encode(),
    "folder/a/texts.csv": lambda lines: "\n".join(["text,n", *(f"{line},1" for line in lines)]).encode(),
}


@pytest.mark.parametrize("name", UNLABELLED)
def test_words_of_unlabelled_texts_are_learned(csv, tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(UNLABELLED[name](["a splendid lovely superb film", "a dreadful awful horrid film"] * 30))
    source = tmp_path / name.split("/")[0]
    command = ["--data.path", csv, "--data.unlabelled", source, *QUICK, "--training.epochs=1"]
    assert train(*command, "--output", tmp_path / "run") == 0
    vocabulary = json.loads((tmp_path / "run" / "tokenizer.json").read_text())["model"]["vocab"]
    assert {"splendid", "dreadful"} <= set(vocabulary)


def test_vectors_of_a_file_are_used_and_decide_the_width(csv, tmp_path, capsys):
    path = tmp_path / "vectors.txt"
    path.write_text("great " + " ".join(["0.5"] * 70) + "\nawful " + " ".join(["-0.5"] * 70) + "\n")
    assert train("--data.path", csv, "--model.vectors", path, "--training.epochs=1", "--output", tmp_path / "run") == 0
    assert "2 of " in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["hidden_size"] == 128
    narrow = ["--data.path", csv, "--model.vectors", path, *QUICK, "--output", tmp_path / "narrow"]
    assert train(*narrow) == 2
    assert "vectors of width 70, but the model has room for 14" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data.unlabelled", "empty.txt"], "empty.txt: there is no text in it"),
        (["--data.unlabelled", "missing.txt"], "missing.txt: there is no such file or folder"),
        (["--model.bigrams=64", "--model.initialization=small"], "model.bigrams 64 needs model.initialization bag"),
        (["--model.vectors", "wrong.txt"], "wrong.txt, line 2: 1 numbers, but 2 are expected"),
    ],
)
def test_bad_texts_and_vectors_are_named(csv, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "wrong.txt").write_text("great 1 2\nawful 1\n")
    assert train("--data.path", csv, "--output", "run", *QUICK, *arguments) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert not (tmp_path / "run").exists()
