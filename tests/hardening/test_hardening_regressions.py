"""Bugs that bad input has found."""

import io
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardening.bad_values import BOMB, DEEP, MERGED
from hardening.program import call
from hardening.runs import TINY, Runs
from transevolve.runs.storage import MANIFEST, write_manifest

RECIPES = {
    "a key twice": ("training: {epochs: 1, epochs: 2}", "line 1: not valid YAML: duplicate key 'epochs'"),
    "a section twice": ("training: {epochs: 1}\ntraining: {seed: 2}", "line 2"),
    "an alias of billions": (
        "model:\n  settings:\n" + BOMB.replace("\n", "\n    ").join(["    ", ""]),
        "or alias",
    ),
    "a merge of billions": (
        "model:\n  settings:\n" + MERGED.replace("\n", "\n    ").join(["    ", ""]),
        "or alias",
    ),
    "brackets without end": (f"model: {{settings: {DEEP}}}", "nested too deeply"),
    "lists without end": ("model:\n  settings:\n    " + "- " * 20_000, "nested too deeply"),
    "brackets as a number": (f'training: {{epochs: "{DEEP}"}}', "is not a number"),
    "no time": ("training: {epochs: !!timestamp x}", "not valid YAML"),
    "a number beyond numbers": ("training: {lr_max: " + "9" * 400 + "}", "is not a number"),
    "a time of day": ("training: {epochs: 12:30:45}", "'12:30:45' is not a number"),
    "a number of old": ("training: {seed: 010}", "'010' is not an integer"),
    "a NUL": ('data: {text: "\\0"}', "is not a string"),
}


@pytest.mark.parametrize(("content", "message"), RECIPES.values(), ids=RECIPES)
def test_recipes(content, message, sandbox):
    Path("r.yaml").write_text(content)
    assert message in (call(["train", "r.yaml", "--data.path=nowhere", "--output=out"]).message or "")
    assert not Path("out").exists()


def test_a_mistake_in_the_data_does_not_take_the_folder(runs, sandbox):
    assert call(["train", "--data.path=nowhere", *TINY, "--output=out"]).code == 2
    assert not Path("out").exists()
    assert call(["train", f"--data.path={runs.table}", *TINY, "--model.hidden_size=7", "--output=out"]).code == 2
    assert not Path("out").exists()


def test_an_empty_argument(sandbox):
    assert "unexpected argument ''" in (call(["systems", ""]).message or "")


def test_a_sweep_of_failures_ends_in_one_line(sandbox, monkeypatch):
    monkeypatch.setattr("transevolve.training.sweep.train_case", lambda *args: "no luck")
    Path("s.yaml").write_text("recipe: demo\nrows: [{training.epochs: 1}]\n")
    assert call(["sweep", "s.yaml", "--output=out"]).message == "no case could be trained; the first one: no luck"
    Path("s.yaml").write_text("recipe: demo\n1: 2\n")
    assert "unknown key '1'" in (call(["sweep", "s.yaml"]).message or "")


def test_a_byte_order_mark_is_not_text(runs, sandbox):
    assert call(["predict", str(runs.words)], b"\xef\xbb\xbf").lines == []


def test_translate_prints_n_best_lines_per_input(runs, sandbox):
    words = ["translate", str(runs.translator), "--beam=2", "--n_best=2", "--extra_length=2"]
    assert len(call(words, b"one two\n\nthree\n").lines) == 6


def test_a_closed_input(runs, sandbox, monkeypatch):
    monkeypatch.setattr(io, "TextIOWrapper", _closed_input(io.TextIOWrapper))
    assert "standard input is closed" in (call(["predict", str(runs.words)]).message or "")


def _closed_input(wrapper: type):
    def wrap(stream, **settings):
        return wrapper(stream, **settings) if "errors" in settings else None

    return wrap


def test_a_damaged_page_of_parquet(runs, sandbox):
    pq.write_table(pa.table({"text": [f"{i} {i}" for i in range(99)]}), "d.parquet", compression="snappy")
    content = Path("d.parquet").read_bytes()
    Path("d.parquet").write_bytes(content[:30] + bytes(40) + content[70:])
    assert "damaged" in (call(["predict", str(runs.words), "--file=d.parquet"]).message or "")


def retyped(origin: Path, file: str, **values) -> None:
    """A copy of a run with values of a JSON file changed, and its sums corrected."""
    shutil.copytree(origin, "run")
    path = Path("run") / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    write_manifest(Path("run"), json.loads(Path("run", MANIFEST).read_text())["sha256"])


def test_labels_stay_in_their_field(runs, sandbox):
    retyped(runs.words, "config.json", id2label={"0": "a\tb", "1": "c\nd"}, label2id={"a\tb": 0, "c\nd": 1})
    (line,) = call(["predict", "run", "great"]).lines
    assert line.split("\t")[0] in ("a b", "c d")


DAMAGED = {
    "classes without numbers": ("config.json", {"id2label": {"0": "a", "7": "b"}}, ["predict", "run", "x"]),
    "a shape that is none": (
        "config.json",
        {"intermediate_size": {}},
        ["export", "run", "--format=hf", "--output=out"],
    ),
    "parameters that are none": ("results.json", {"parameters": "x"}, ["report", "run", "--output=out.html"]),
    "scores that are none": ("results.json", {"validation": 3}, ["export", "run", "--format=hf", "--output=out"]),
    "confusion": ("validation.evaluation.json", {"confusion": [[1]]}, ["report", "run", "--output=out.html"]),
    "a tokenizer": ("tokenizer.json", {"model": 3}, ["predict", "run", "x"]),
}


@pytest.mark.parametrize(("file", "values", "words"), DAMAGED.values(), ids=DAMAGED)
def test_damage_with_right_sums(file, values, words, runs: Runs, sandbox):
    retyped(runs.words, file, **values)
    assert call(words).code == 2
    assert not any(Path().glob("out*"))


def test_an_evaluation_that_fails_leaves_no_folder(runs, sandbox):
    Path("d.csv").write_text("comment,verdict\nx,unheard-of\n")
    assert call(["evaluate", str(runs.words), "--file=d.csv", "--output=out"]).code == 2
    assert not Path("out").exists()


PLANTED = [
    "explain.html",
    "explain.png",
    "evolution-error.png",
    "evolution-error.json",
    "validation.evaluation.json",
    "validation.confusion.png",
]


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "run", "great film"],
        ["explain", "run", "--error", "great film"],
        ["evaluate", "run", "--split", "validation"],
        ["report", "run", "--output", "run/report.html"],
    ],
    ids=lambda words: " ".join(words),
)
def test_planted_links_are_not_followed(words, runs: Runs, sandbox):
    shutil.copytree(runs.words, "run")
    Path("precious").write_text("mine")
    for name in [*PLANTED, "report.html"]:
        for link in (Path("run", name), Path("run", f".{name}.part")):
            link.unlink(missing_ok=True)
            link.symlink_to(Path("precious").resolve())
    assert call(words).code in (0, 2)
    assert Path("precious").read_text() == "mine"


@pytest.mark.parametrize("name", ["results.json", "manifest.json", "validation.evaluation.json", "metrics.jsonl"])
def test_a_pipe_in_a_run_folder_does_not_hang(name, runs: Runs, sandbox):
    shutil.copytree(runs.words, "run")
    Path("run", name).unlink()
    os.mkfifo(Path("run", name))
    for words in (["report", "run", "--output=out.html"], ["export", "run", "--format=hf", "--output=out"]):
        call(words)


def test_a_column_that_a_file_of_lines_does_not_have(runs: Runs, sandbox):
    Path("t.dat").write_text("text,label\ngreat,yes\n")
    answer = call(["predict", str(runs.words), "--file=t.dat", "--column=nonexistent"])
    assert "t.dat: has no column 'nonexistent'" in (answer.message or "")


def test_a_label_that_cannot_be_encoded(sandbox):
    Path("d.jsonl").write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "\\ud800"}\n' * 20)
    answer = call(["train", "--data.path=d.jsonl", *TINY, "--output=out"])
    assert "d.jsonl, line 2: the label 'label' contains '\\ud800'" in (answer.message or "")
    assert not Path("out").exists()


def test_mathematics_in_a_file_name(runs: Runs, sandbox):
    shutil.copy(runs.table, "price$^$.csv")
    assert call(["evaluate", str(runs.words), "--file=price$^$.csv", "--output=out"]).code == 0
    assert call(["train", "--data.path=price$^$.csv", *TINY, "--output=run"]).code == 0
