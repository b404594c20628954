"""Several labels per text: from file to prediction, thresholds, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForSequenceClassification, pipeline

from kinds_support import TOPICS, labelled_sets, replace_line, write_separated, write_wide
from training_support import TINY, result, train
from transevolve.cli import main
from transevolve.data import DataOptions, load_data
from transevolve.data.detect import detected_task
from transevolve.data.labelsets import LabelSets
from transevolve.inference import load
from transevolve.metrics.multilabel import best_thresholds, label_set_scores


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("multilabel")
    data = write_separated(folder / "topics.csv")
    flags = [f"--data.path={data}", "--data.label_separator=|", f"--output={folder / 'run'}"]
    assert train(*flags, *TINY, "--training.epochs=2") == 0
    return folder / "run"


def test_labels_are_learned_above_the_baseline(run):
    found = result(run)
    assert (found["task"], found["selected_by"]) == ("multilabel", "micro_f1")
    assert found["validation"].keys() == {"loss", "micro_f1", "macro_f1", "exact_match"}
    assert found["validation"]["micro_f1"] > found["baseline"]["validation"]["micro_f1"] + 0.2
    assert found["data"]["splits"]["train"]["classes"].keys() == TOPICS.keys()


def test_predict_prints_the_labels_of_each_text(run, capsys):
    assert main(["predict", str(run), "the goal team and", "a bank price song paint"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert [part.split()[0] for part in first.split("\t")] == ["sport"]
    assert {part.split()[0] for part in second.split("\t")} == {"money", "art"}
    assert main(["predict", str(run), "--json", "the goal team and"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["labels"] == ["sport"]
    assert found["probabilities"].keys() == TOPICS.keys()


def test_evaluate_scores_each_label_with_the_saved_thresholds(run, tmp_path, capsys):
    other = write_separated(tmp_path / "other.csv", rows=40, seed=3)
    assert main(["evaluate", str(run), "--file", str(other), "--output", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["micro_f1"] > 0.8
    assert [score["label"] for score in found["labels"]] == sorted(TOPICS)
    predicted = [set(p.labels) for p in load(run).predict([text for text, _ in labelled_sets(40, 3)])]
    truth = [set(topics) for _, topics in labelled_sets(40, 3)]
    assert found["exact_match"] == pytest.approx(np.mean([a == b for a, b in zip(predicted, truth, strict=True)]))


def test_hugging_face_reads_it_as_multi_label(run):
    config = AutoModelForSequenceClassification.from_pretrained(run).config
    assert config.problem_type == "multi_label_classification"
    assert len(config.thresholds) == 3
    scores = pipeline("text-classification", model=str(run))("the goal team and a bank price", top_k=None)
    thresholds = dict(zip(config.id2label.values(), config.thresholds, strict=True))
    chosen = {one["label"] for one in scores if one["score"] >= thresholds[one["label"]]}
    assert chosen == {"sport", "money"}


@pytest.mark.usefixtures("unchecked")
def test_it_is_exported_and_explained(run, tmp_path):
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "hf")]) == 0
    assert "any of 3 labels" in (tmp_path / "hf" / "README.md").read_text()
    assert main(["explain", str(run), "goal bank team", "--output", str(tmp_path / "page.html")]) == 0


@pytest.mark.slow
def test_columns_of_0_and_1_on_another_system(tmp_path):
    data = write_wide(tmp_path / "wide.csv")
    flags = [f"--data.path={data}", "--data.text=text", "--data.label", *TOPICS, f"--output={tmp_path / 'run'}"]
    assert train(*flags, *TINY, "--training.epochs=1", "--model.system=transformer") == 0
    assert list(result(tmp_path / "run")["data"]["splits"]["train"]["classes"]) == list(TOPICS)
    assert "--data.label=sport --data.label=money" in result(tmp_path / "run")["command"]


def test_columns_of_0_and_1(tmp_path):
    options = DataOptions(path=str(write_wide(tmp_path / "wide.csv", rows=20)), text="text", label=list(TOPICS))
    data = load_data(options)
    assert data.labels == list(TOPICS)
    assert data.train is not None
    texts, truth = data.texts("train"), [set(topics) for _, topics in labelled_sets(20)]
    found = [{data.labels[n] for n, mark in enumerate(row) if mark} for row in data.train["labels"][:]]
    assert texts is not None
    by_text = dict(zip([text for text, _ in labelled_sets(20)], truth, strict=True))
    assert [by_text[text] for text in texts] == found


def test_lists_in_jsonl_need_no_separator(tmp_path):
    rows = [json.dumps({"text": text, "labels": topics}) for text, topics in labelled_sets(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows) + "\n")
    options = DataOptions(path=str(tmp_path / "a.jsonl"))
    data = load_data(replace(options, task=detected_task(options)))
    assert data.labels == sorted(TOPICS)
    assert data.train is not None
    assert set(map(len, data.train["labels"][:])) == {3}


def test_thresholds_separate_scores_that_0_5_does_not():
    truth = np.array([[1, 0], [1, 0], [0, 0], [0, 0]])
    logits = np.log([[0.3, 0.9], [0.2, 0.9], [0.1, 0.9], [0.05, 0.9]])
    thresholds = best_thresholds(logits, truth)
    assert 0.09 < thresholds[0] < 0.17
    assert thresholds[1] == 0.5
    found = label_set_scores(logits, truth, thresholds, ["a", "b"])
    assert found.labels[0].f1 == 1.0
    assert found.macro_f1 == 1.0


def test_a_cut_has_rows_of_every_label():
    values = np.zeros((100, 3), dtype=np.int8)
    values[:, 0] = 1
    values[:10, 1] = 1
    values[0, 2] = 1
    strata = LabelSets().strata(values)
    assert len(set(strata[1:10])) == 1
    assert strata[1] != strata[50]
    assert min(np.unique(strata, return_counts=True)[1]) > 1


@pytest.mark.parametrize(
    ("write", "flags", "line", "message"),
    [
        (write_wide, ["--data.label", *TOPICS], "a goal,2,0,1", "line 5: the label column 'sport' contains '2'"),
        (write_wide, ["--data.label", "sport", "art", "arts"], None, "no column 'arts' for the labels"),
        (write_separated, ["--data.task=multilabel"], None, "line 2: 'topics' contains a text"),
        (write_separated, ["--data.label_separator=|", "--model.label_smoothing=0.1"], None, "exclude each other"),
        (write_wide, ["--data.task=regression", "--data.label", "sport", "art"], None, "names 2 columns"),
    ],
)
def test_bad_input_is_named(write, flags, line, message, tmp_path, capsys):
    data = write(tmp_path / "data.csv")
    if line is not None:
        replace_line(data, 5, line)
    assert train(f"--data.path={data}", *flags, f"--output={tmp_path / 'run'}", *TINY) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_label_at_evaluation_is_named(run, tmp_path, capsys):
    other = replace_line(write_separated(tmp_path / "other.csv", rows=5), 3, "a goal,sport|arts")
    assert main(["evaluate", str(run), "--file", str(other)]) == 2
    assert "line 3: the label 'arts' is not among those of the model" in capsys.readouterr().err
