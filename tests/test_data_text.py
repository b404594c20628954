"""AG News and IMDB, from small folders of the same layout, from the hub's interface, and from the real files."""

import os
from pathlib import Path

import datasets
import pytest

from test_data_files import write
from transevolve.core.errors import UserError
from transevolve.data import TASKS, DataOptions, load_data

DATA = os.environ.get("TRANSEVOLVE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="TRANSEVOLVE_DATA names no folder with the real data")
AG_NEWS = ["World", "Sports", "Business", "Sci/Tech"]
SENTIMENT = ["negative", "positive"]
NAMES = {"agnews": AG_NEWS, "imdb": SENTIMENT, "imdb-char": SENTIMENT}


def folder(path: Path, task: str, labels=None) -> str:
    labels = labels or range(len(NAMES[task]))
    rows = [{"text": f"A text<br />of class {label}.", "label": label} for label in labels] * 10
    for split in ("train", "test"):
        write(path / f"{split}.jsonl.gz", rows)
    return str(path)


@pytest.mark.parametrize("task", NAMES)
def test_classes_have_their_names(task, tmp_path):
    data = load_data(DataOptions(task=task, path=folder(tmp_path, task)))
    assert data.labels == NAMES[task]
    for row in data.test:
        words = data.tokenizer.decode(row["input_ids"], skip_special_tokens=True)
        assert words.rstrip(" .").endswith(str(row["labels"]))
    assert data.report.splits["test"].classes == dict.fromkeys(NAMES[task], 10)


def test_files_may_use_the_names_themselves(tmp_path):
    data = load_data(DataOptions(task="imdb", path=folder(tmp_path, "imdb", ["pos", "negative"])))
    assert data.labels == SENTIMENT
    assert data.test[:2]["labels"] == [1, 0]


def test_a_class_that_the_task_does_not_have(tmp_path):
    with pytest.raises(UserError, match=r"train.jsonl.gz, line 3: the label '2' is not among those of the task 'imdb'"):
        load_data(DataOptions(task="imdb", path=folder(tmp_path, "imdb", [0, 1, 2])))


def test_characters_are_kept_as_they_are_up_to_4000(tmp_path):
    rows = [{"text": "Long<br /> " * 500, "label": i % 2} for i in range(20)]
    data = load_data(DataOptions(task="imdb-char", path=str(write(tmp_path / "train.jsonl", rows).parent)))
    ids = data.train[0]["input_ids"]
    assert len(ids) == 4000
    assert data.tokenizer.decode(ids, skip_special_tokens=True) == ("Long<br /> " * 500)[:3999]
    assert data.report.splits["train"].truncated == 18


def test_a_vocabulary_from_the_user(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "text", "of", "class"]))
    data = load_data(DataOptions(task="agnews", path=folder(tmp_path, "agnews"), vocab=str(vocab), max_length=6))
    assert data.tokenizer.convert_ids_to_tokens(data.train[0]["input_ids"])[:3] == ["[CLS]", "a", "text"]
    facts = data.report.splits["train"]
    assert data.report.tokenizer == f"word pieces from {vocab}, 8 tokens"
    assert (facts.truncated, facts.unknown > 0) == (facts.rows, True)


def hub(monkeypatch, features=None, missing: str | None = None):
    features = features or datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    rows = {"text": [f"text {i % 2}" for i in range(20)], "label": [i % 2 for i in range(20)]}
    splits = {name: datasets.Dataset.from_dict(rows, features) for name in ("train", "test") if name != missing}
    asked = []

    def load_dataset(name, config, cache_dir=None):
        asked.append((name, config, cache_dir))
        return datasets.DatasetDict(splits)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize(("task", "names"), [("imdb", SENTIMENT), ("files", ["neg", "pos"])])
def test_a_dataset_of_the_hub(task, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = hub(monkeypatch)
    data = load_data(DataOptions(task=task, hub="some/where", hub_config="plain", cache="folder"))
    assert asked == [("some/where", "plain", "folder")]
    assert data.labels == names
    assert (len(data.train), len(data.validation), len(data.test)) == (18, 2, 20)
    assert data.report.splits["test"].origin == "some/where, plain (test)"


def test_a_dataset_of_the_hub_without_train(monkeypatch):
    hub(monkeypatch, missing="train")
    with pytest.raises(UserError, match="'some/where' has no train split"):
        load_data(DataOptions(hub="some/where"))


def test_a_hub_out_of_reach(monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("Couldn't reach the hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError, match=r"cannot be loaded \(Couldn't reach the hub\); check the name and the network"):
        load_data(DataOptions(hub="some/where"))


def test_every_task_has_a_summary():
    assert {"files", "translation", "listops", "agnews", "imdb", "imdb-char"} <= set(TASKS)
    assert all(task.summary for task in TASKS.values())


@needs_data
@pytest.mark.parametrize(
    ("task", "name", "train", "test"), [("agnews", "ag_news", 62_280, 7_600), ("imdb", "imdb", 22_500, 25_000)]
)
def test_the_real_data(task, name, train, test):
    root = Path(str(DATA))
    vocab = str(root / "bert_vocab" / "vocab.txt")
    options = DataOptions(
        task=task, path=str(root / name), vocab=vocab, train_rows=1000, validation_rows=100, test_rows=100
    )
    data = load_data(options)
    assert data.report.splits["train"].origin.endswith(f"a stratified sample of {train:,} rows (seed 0)")
    assert data.report.splits["test"].origin.endswith(f"a stratified sample of {test:,} rows (seed 0)")
    assert len(set(data.report.splits["train"].classes.values())) == 1
    assert data.report.vocab_size == 30_522
