"""The package from Python: train, load, predict, evaluate, embed and explain, with lists, Series and DataFrames."""

import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from nbclient import NotebookClient

import transevolve
from training_support import write_csv
from transevolve.cli import main
from transevolve.core.errors import UserError

SMALL = {"epochs": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "block_depth": 2}
TEXTS = ["a lovely film", "a poor one", ""]
NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("python")


@pytest.fixture(scope="module")
def frame(folder) -> pd.DataFrame:
    write_csv(folder / "my.csv", rows=80)
    return pd.read_csv(folder / "my.csv")


@pytest.fixture(scope="module")
def run(folder, frame) -> transevolve.Run:
    splits = {"train": frame[:60], "test": frame[60:]}
    return transevolve.train(splits, folder / "run", cache=str(folder / "cache"), device="cpu", **SMALL)


def test_importing_the_package_imports_no_library_of_models():
    script = "import sys, transevolve; print(sorted({'torch', 'numpy', 'pandas', 'tqdm'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_run_trained_on_frames_is_scored_on_them_and_shows_it(run):
    assert run.results.test is not None
    assert f"test accuracy {run.results.test['accuracy']:.4f}" in repr(run)
    assert {"step", "eval_accuracy"} <= {*run.metrics.columns}


def test_the_same_frames_resume_the_same_run(run, folder, frame, capsys):
    splits = {"train": frame[:60], "test": frame[60:]}
    again = transevolve.train(splits, folder / "run", cache=str(folder / "cache"), **SMALL)
    assert "already finished" in capsys.readouterr().err
    assert again.results == run.results
    with pytest.raises(UserError, match="contains another training"):
        transevolve.train(splits, folder / "run", cache=str(folder / "cache"), **{**SMALL, "epochs": 2})


def test_the_recorded_command_is_the_same_training(run, capsys):
    """Independent of the command that started Python."""
    program, *words = shlex.split(run.results.command)
    assert program == "transevolve"
    assert main(words) == 0
    assert "already finished" in capsys.readouterr().err


def test_a_loaded_run_predicts_what_the_command_line_does(run, folder, capsys):
    loaded = transevolve.load(folder / "run")
    assert main(["predict", str(folder / "run"), *TEXTS]) == 0
    assert [found.line() for found in loaded.predict(TEXTS)] == capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("texts", [list, tuple, np.array, pd.Series, lambda texts: pd.DataFrame({"comment": texts})])
def test_texts_can_be_any_sequence(run, texts):
    assert run.predict(texts(TEXTS)) == run.predict(TEXTS)


def test_one_text_has_one_prediction_and_missing_text_is_empty(run):
    assert run.predict(TEXTS[0]) == run.predict(TEXTS[:1])[0]
    assert run.predict(pd.Series([None, np.nan]))[0].text == ""
    assert run.predict([]) == []


@pytest.mark.parametrize(("texts", "complaint"), [([3], "text 1 is a int"), (3, "list of texts"), ({}, "a list")])
def test_other_types_are_refused(run, texts, complaint):
    with pytest.raises(UserError, match=complaint):
        run.predict(texts)


def test_predictions_are_a_table(run):
    table = run.predict(TEXTS).to_pandas()
    assert table.columns.tolist() == ["text", "label", "probability"]
    assert "<table" in run.predict(TEXTS)._repr_html_()
    assert TEXTS[0] in repr(run.predict(TEXTS))


def test_evaluation_of_a_split_a_file_and_a_frame_agree(run, frame, folder):
    score = run.evaluate()
    frame[60:].to_csv(folder / "test.csv", index=False)
    assert score.metrics == run.evaluate(frame[60:]).metrics == run.evaluate(folder / "test.csv").metrics
    assert score.to_pandas()["rows"].sum() == 20
    assert "accuracy" in repr(score)
    assert "<table" in score._repr_html_()


def test_vectors_do_not_depend_on_the_batch_and_differ_between_texts(run):
    vectors = run.embed(TEXTS)
    assert vectors.shape == (3, 16)
    np.testing.assert_allclose(run.embed(TEXTS[1]), vectors[1], atol=1e-6)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
    assert run.embed([]).shape == (0, 16)


@pytest.mark.parametrize("name", ["vectors.npy", "vectors.parquet"])
def test_the_command_writes_the_vectors(run, folder, name):
    (folder / "texts.txt").write_text("a lovely film\na poor one\n")
    assert main(["embed", str(run.folder), str(folder / "texts.txt"), "--output", str(folder / name)]) == 0
    if name.endswith(".npy"):
        found = np.load(folder / name)
    else:
        table = pq.read_table(folder / name)
        assert table["text"].to_pylist() == TEXTS[:2]
        found = np.array(table["vector"].to_pylist(), dtype=np.float32)
    np.testing.assert_allclose(found, run.embed(TEXTS[:2]), atol=1e-6)


def test_an_explanation_is_a_page(run, folder):
    explanation = run.explain(TEXTS[0], folder / "why.html")
    assert run.predict(TEXTS[0]).label in repr(explanation)
    assert (folder / "why.html").exists()
    assert "<iframe" in explanation._repr_html_()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"epoch": 1}, "did you mean 'epochs'"),
        ({"seed": 1}, "setting of data and of training"),
        ({"training": {"epoch": 1}}, "did you mean 'training.epochs'"),
        ({"data": 3}, "data must be a path, a DataFrame"),
        ({"data": {"path": "nowhere.csv"}}, "nowhere.csv"),
        ({"data": "my.csv", "device": "abacus"}, "device 'abacus' is not available"),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(settings, complaint, tmp_path):
    with pytest.raises(UserError, match=complaint) as raised:
        transevolve.train(output=tmp_path / "out", **settings)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "embed", "explain"])
def test_every_command_that_computes_takes_a_device(command, run, folder, capsys, tmp_path):
    words = {
        "train": ["--data.path", str(folder / "my.csv"), "--output", str(tmp_path / "out")],
        "embed": [str(run.folder), str(folder / "my.csv"), "--output", str(tmp_path / "x.npy")],
    }.get(command, [str(run.folder), *(["a text"] if command != "evaluate" else [])])
    assert main([command, *words, "--device", "cuda:77"]) == 2
    assert "device 'cuda:77' is not available" in capsys.readouterr().err


def test_a_plan_counts_what_training_does(run, folder, capsys):
    small = [f"--model.{name}={value}" for name, value in SMALL.items() if name != "epochs"]
    assert main(["plan", "--data.path", str(folder / "my.csv"), "--training.epochs=3", *small]) == 0
    shown = capsys.readouterr().out
    assert "train 72, validation 8" in shown
    assert f"{sum(weight.numel() for weight in run.model.parameters()):,}" in shown
    for row in ("tokens per epoch", "tokens/s in", "(h:mm:ss)", "GB"):
        assert row in shown


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content = nbformat.read(notebook, as_version=4)
    NotebookClient(content, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = "".join(str(cell.get("outputs")) for cell in content.cells)
    assert "<table" in shown
    assert "<iframe" in shown
