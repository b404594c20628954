"""Prepared data: the same rows as in memory, complete or absent, shared, and never mixed up."""

import json
import os
import resource
import signal
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kinds_support import TOPICS, write_pairs, write_wide
from training_support import process, train, training_of, write_csv
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.data import DataOptions, corpus, load_data, parts, stored
from transevolve.data.batching import RowStore
from transevolve.data.encoding import joined_ids
from transevolve.data.options import TokenizerChoice
from transevolve.data.stored import Chained, Column, workspace
from transevolve.data.tokenizers import build_tokenizer
from transevolve.kinds import KINDS
from transevolve.kinds.language import LanguageKind


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TRANSEVOLVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared"


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock") if cache.exists() else []


def load(path: Path, **options):
    return load_data(DataOptions(path=str(path), **options))


def pairs(folder: Path, count: int = 60) -> dict[str, str]:
    for language, word in (("en", "dogs"), ("de", "Hunde")):
        (folder / f"train.{language}").write_text("".join(f"{i} {word} {'x' * (i % 7)}\n" for i in range(count)))
    return {"source": str(folder / "train.en"), "target": str(folder / "train.de"), "vocab_size": 300}


def same(one, other) -> bool:
    """Everything that training sees."""
    splits = [
        (a.split(name), b) for a in (one,) for name in ("train", "validation", "test") for b in (other.split(name),)
    ]
    rows = all((a is None and b is None) or a.to_dict() == b.to_dict() for a, b in splits)
    vocabularies = one.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    return rows and vocabularies and one.report == other.report and one.labels == other.labels


@pytest.mark.parametrize("tokenizer", ["wordpiece", "bpe", "char", "byte"])
def test_on_disk_is_as_in_memory(tokenizer, tmp_path, monkeypatch):
    path = write_csv(tmp_path / "a.csv")
    options = {"tokenizer": tokenizer, "train_rows": 50, "vocab_size": None if tokenizer == "byte" else 300}
    monkeypatch.setattr("transevolve.data.prepared.workspace", lambda _: nullcontext())
    in_memory = load(path, **options, cache=str(tmp_path / "other"))
    monkeypatch.undo()
    monkeypatch.setattr(stored, "BATCH_ROWS", 7)
    on_disk = load(path, **options, cache=str(tmp_path / "mine"))
    assert same(in_memory, on_disk)
    assert list(in_memory.texts("train")) == list(on_disk.texts("train"))
    assert same(load(path, **options, cache=str(tmp_path / "mine")), on_disk)


def test_pairs_on_disk_are_as_in_memory(tmp_path, monkeypatch):
    options = DataOptions(**pairs(tmp_path), max_length=4)
    monkeypatch.setattr("transevolve.data.prepared.workspace", lambda _: nullcontext())
    in_memory = load_data(options)
    monkeypatch.undo()
    monkeypatch.setattr(stored, "BATCH_ROWS", 7)
    options.cache = str(tmp_path / "mine")
    assert same(in_memory, load_data(options))
    assert same(in_memory, load_data(options))
    assert in_memory.report.splits["train"].skipped_long > 0


def write_kind(kind: str, folder: Path) -> DataOptions:
    if kind == "windows":
        return DataOptions(path=str(write_csv(folder / "a.csv")), max_length=6, long="window", validation=0.5)
    if kind == "pairs":
        return DataOptions(path=str(write_pairs(folder / "p.tsv", 40)), vocab_size=200)
    return DataOptions(path=str(write_wide(folder / "w.csv", rows=40)), text="text", label=list(TOPICS))


@pytest.mark.parametrize("kind", ["windows", "pairs", "labels"])
def test_every_kind_of_row_is_the_same_in_any_batches(kind, tmp_path, monkeypatch):
    options = write_kind(kind, tmp_path)
    whole = load_data(options)
    assert same(whole, load_data(options))
    monkeypatch.setattr(stored, "BATCH_ROWS", 7)
    parted = load_data(replace(options, cache=str(tmp_path / "mine")))
    assert same(whole, parted)
    assert list(whole.texts("train")) == list(parted.texts("train"))
    assert len(whole.texts("train")) == whole.report.splits["train"].rows
    if kind == "windows":
        assert len(parted.train) > len(whole.texts("train"))
        assert sorted(set(parted.train["row"][:])) == list(range(len(whole.texts("train"))))
    rows = RowStore(parted.train)
    assert [list(rows[i]["input_ids"]) for i in range(len(rows))] == whole.train["input_ids"][:]
    assert [rows[i]["labels"] for i in range(len(rows))] == whole.train["labels"][:]
    ids, offsets = joined_ids(parted.train)
    assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == whole.train["input_ids"][:]


@pytest.mark.parametrize("task", [name for name, kind in KINDS.items() if isinstance(kind, LanguageKind)])
def test_texts_of_language_models_are_prepared(task, tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        lines = [f"{name} has line {number} {'and more ' * (number % 9)}\n" for number in range(40)]
        (tmp_path / "texts" / name).write_text("".join(lines))
    options = DataOptions(task=task, path=str(tmp_path / "texts"), vocab_size=300, max_length=12)
    monkeypatch.setattr("transevolve.data.prepared.workspace", lambda _: nullcontext())
    in_memory = load_data(options)
    monkeypatch.undo()
    monkeypatch.setattr(stored, "BATCH_ROWS", 7)
    options.cache = str(tmp_path / "mine")
    first = load_data(options)
    assert same(in_memory, first)
    assert first.tokenizer.split_special_tokens == (task == "causal")
    monkeypatch.setattr(corpus, "encode", lambda *_: pytest.fail("tokenized again"))
    assert same(first, load_data(options))
    scored = load_data(options, tokenizer=first.tokenizer, labels=[], splits=("validation",))
    assert scored.validation.to_dict() == first.validation.to_dict()
    (tmp_path / "texts").rename(tmp_path / "moved")
    moved = load_data(replace(options, path=str(tmp_path / "moved")))
    assert moved.report.splits["train"].origin.startswith(str(tmp_path / "moved" / "a.txt"))


def test_a_tokenizer_counts_by_its_contents(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    folders = []
    for size in (60, 60, 70):
        load(path, vocab_size=size).tokenizer.save_pretrained(tmp_path / "tokenizer")
        folders.append(load(path, tokenizer=str(tmp_path / "tokenizer")).folder)
    assert folders[0] == folders[1] != folders[2]


def test_unlabelled_texts_count_by_their_contents(tmp_path):
    path, texts = write_csv(tmp_path / "a.csv"), tmp_path / "texts"
    for name in ("one", "two"):
        (texts / name).mkdir(parents=True)
        (texts / name / "a.txt").write_text("splendid words\n" * 9)
    before = load(path, unlabelled=str(texts))
    assert "splendid" in before.tokenizer.get_vocab()
    (texts / "one" / "a.txt").write_text("dreadful words\n" * 9)
    after = load(path, unlabelled=str(texts))
    assert before.folder != after.folder
    assert "dreadful" in after.tokenizer.get_vocab()


def test_with_the_tokenizer_of_another_model(tmp_path, monkeypatch):
    path, other = write_csv(tmp_path / "a.csv"), write_csv(tmp_path / "b.csv", seed=1)
    tokenizer = load(other, vocab_size=60).tokenizer
    first = load_data(DataOptions(path=str(path)), tokenizer=tokenizer)
    assert first.folder != load(path).folder
    monkeypatch.setattr(parts, "encode", lambda *_: pytest.fail("tokenized again"))
    assert same(first, load_data(DataOptions(path=str(path)), tokenizer=tokenizer))
    options = DataOptions(path=str(path), text="comment", label="verdict")
    scored = load_data(options, tokenizer=tokenizer, labels=first.labels, splits=("validation",))
    assert scored.validation.to_dict() == first.validation.to_dict()


def test_the_second_start_does_not_tokenize(tmp_path, cache, monkeypatch):
    path = write_csv(tmp_path / "a.csv")
    first = load(path)
    assert entries(cache) == [first.folder.name]
    monkeypatch.setattr(parts, "encode", lambda *_: pytest.fail("tokenized again"))
    second = load(path)
    assert same(first, second)
    assert all(file["filename"].startswith(str(cache)) for file in second.train.cache_files)
    named = load(path, text="comment", label="verdict")
    assert named.folder == first.folder
    moved = path.rename(tmp_path / "b.csv")
    assert load(moved).report.splits["train"].origin == str(moved)


@pytest.mark.parametrize("change", [{"seed": 1}, {"max_length": 9}, {"vocab_size": 80}, {"validation": 0.5}])
def test_other_settings_are_prepared_apart(change, tmp_path, cache):
    path = write_csv(tmp_path / "a.csv")
    assert load(path).folder != load(path, **change).folder
    assert len(entries(cache)) == 2


def test_a_changed_row_is_prepared_again(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    before = load(path)
    path.write_text(path.read_text().replace(",yes", ",no", 1))
    after = load(path)
    assert before.folder != after.folder
    assert before.report.splits["train"].classes != after.report.splits["train"].classes


def truncate(folder: Path) -> None:
    os.truncate(folder / "train.arrow", 100)


def flip(folder: Path) -> None:
    content = bytearray((folder / "train.arrow").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "train.arrow").write_bytes(content)


def lose(folder: Path) -> None:
    (folder / "tokenizer" / "tokenizer.json").unlink()


def scribble(folder: Path) -> None:
    (folder / "entry.json").write_text('{"versions": 1}')


def age(folder: Path) -> None:
    entry = json.loads((folder / "entry.json").read_text())
    (folder / "entry.json").write_text(json.dumps(entry | {"versions": {"format": "0"}}))


@pytest.mark.parametrize("damage", [truncate, flip, lose, scribble, age])
def test_damaged_or_old_data_are_prepared_again(damage, tmp_path, capsys):
    path = write_csv(tmp_path / "a.csv")
    folder = load(path).folder
    before = {file.name: file.read_bytes() for file in folder.glob("*.arrow")}
    damage(folder)
    load(path)
    printed = capsys.readouterr().err
    assert "prepared again" in printed
    assert ("another version" in printed) == (damage is age)
    assert {file.name: file.read_bytes() for file in folder.glob("*.arrow")} == before
    load(path)
    assert "prepared again" not in capsys.readouterr().err


def test_an_error_in_the_last_row_leaves_no_files(tmp_path, cache):
    path = write_csv(tmp_path / "a.csv", rows=200)
    path.write_text(path.read_text() + "no label,\n")
    with pytest.raises(UserError, match="line 202: the label 'verdict' is empty"):
        load(path)
    assert entries(cache) == []


def test_a_full_disk_is_one_line_and_the_same_command_works_later(tmp_path, cache):
    path = write_csv(tmp_path / "a.csv", rows=3000)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        with pytest.raises(UserError, match=r"no space left on the disk.*run the same command again"):
            load(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert entries(cache) == []
    assert len(load(path).train) == 2700


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write the cache .*data\.cache"):
        load(write_csv(tmp_path / "a.csv"), cache=str(tmp_path / "file" / "cache"))


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UserError, match="is a pipe or a device"):
        load(tmp_path / "pipe.csv")


def test_two_starts_at_once_prepare_once(tmp_path, monkeypatch, capsys):
    path, counted = write_csv(tmp_path / "a.csv"), []
    original = parts.encode

    def slow(*arguments):
        counted.append(1)
        time.sleep(0.3)
        return original(*arguments)

    monkeypatch.setattr(parts, "encode", slow)
    found: list = []
    threads = [threading.Thread(target=lambda: found.append(load(path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counted) == 2  # train and validation, of one of them
    assert same(*found)
    assert "waiting for another process" in capsys.readouterr().err


def test_a_saved_model_uses_what_its_training_prepared(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "a.csv")
    data = load(path)
    monkeypatch.setattr(parts, "encode", lambda *_: pytest.fail("tokenized again"))
    columns = {"text": "comment", "label": "verdict"}
    again = load_data(
        DataOptions(path=str(path), **columns), tokenizer=data.tokenizer, labels=data.labels, splits=("validation",)
    )
    assert (again.train, again.validation.to_dict()) == (None, data.validation.to_dict())
    assert list(again.report.splits) == ["validation"]


def test_large_corpora_learn_from_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("transevolve.data.tokenizers.SAMPLE_TEXTS", 40)
    report = load(write_csv(tmp_path / "a.csv")).report
    assert "word pieces learned from a sample of 40 of 108 training texts" in report.tokenizer
    with workspace(tmp_path):
        column = Column(stored.pa.large_string())
        for number in range(100):
            column.append(f"word{number}")
        chosen = TokenizerChoice("char", 9, None)
        one, other = (build_tokenizer(chosen, column, seed=seed)[0].get_vocab() for seed in (0, 0))
        assert one == other


def test_a_column_is_a_sequence(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BATCH_ROWS", 4)
    values = [f"text {number}" for number in range(11)]
    with workspace(tmp_path):
        column = Column(stored.pa.large_string())
        for value in values:
            column.append(value)
        assert (len(column), list(column), column[3], column[-1], column[2:9:3]) == (
            *(11, values, values[3], values[-1]),
            values[2:9:3],
        )
        some = column.select(np.array([9, 1, 1, 10]))
        assert list(some) == [values[i] for i in (9, 1, 1, 10)]
        assert list(some.select(np.array([3, 0]))) == [values[10], values[9]]
        with pytest.raises(IndexError):
            column[11]
        both = Chained(column, ["one", "more"])
        assert (len(both), both[10], both[11], list(both)) == (13, values[10], "one", [*values, "one", "more"])
        assert list(both.select(np.array([0, 10, 12]))) == [values[0], values[10], "more"]


def test_prepare_then_train_then_list_then_clear(tmp_path, cache, capsys, monkeypatch):
    path = write_csv(tmp_path / "a.csv")
    command = training_of(path, tmp_path / "run", "--training.epochs=1")
    assert main(["prepare", *command]) == 0
    printed = capsys.readouterr().out
    assert f"prepared data: {cache}" in printed
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(parts, "encode", lambda *_: pytest.fail("tokenized again"))
    assert train(*command) == 0
    assert main(["evaluate", str(tmp_path / "run"), "--split", "validation"]) == 0
    record = json.loads((tmp_path / "run" / "data.json").read_text())
    assert entries(cache) == [record["prepared"]]
    assert record["lines"] == {"path": 121}
    capsys.readouterr()
    assert main(["cache"]) == 0
    assert record["prepared"] in capsys.readouterr().out
    assert main(["cache", "nothing", "--clear"]) == 2
    assert main(["cache", record["prepared"], "--clear"]) == 0
    assert entries(cache) == []


def test_another_tokenizer_is_not_resumed_with(tmp_path, capsys):
    path, run = write_csv(tmp_path / "a.csv"), tmp_path / "run"
    command = training_of(path, run, "--training.epochs=1")
    assert train(*command) == 0
    record = json.loads((run / "data.json").read_text())
    (run / "data.json").write_text(json.dumps(record | {"tokenizer": "0" * 64}))
    (run / "results.json").unlink()
    assert train(*command) == 2
    assert "resume with the version that started the run" in capsys.readouterr().err


def test_data_of_another_fingerprint_are_not_resumed_with(tmp_path, capsys):
    """As when a data set on the hub has changed, which is not visible in files."""
    path, run = write_csv(tmp_path / "a.csv"), tmp_path / "run"
    command = training_of(path, run, "--training.epochs=1")
    assert train(*command) == 0
    record = json.loads((run / "data.json").read_text())
    (run / "data.json").write_text(json.dumps(record | {"prepared": "0" * 24}))
    (run / "results.json").unlink()
    assert train(*command) == 2
    assert f"their fingerprint is {record['prepared']}, was {'0' * 24}" in capsys.readouterr().err


def arrow_files(cache: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for folder in cache.iterdir() for file in folder.glob("*.arrow")}


@pytest.mark.slow
def test_data_are_the_same_after_twenty_kills(tmp_path, cache):
    """Ten kills while preparing and ten while training: data and weights are those of an undisturbed run."""
    path = write_csv(tmp_path / "a.csv", rows=20_000, words=40)
    more = ["--training.max_steps=60", "--training.save_steps=10", "--training.eval_steps=30"]
    assert train(*training_of(path, tmp_path / "whole", *more)) == 0
    expected = arrow_files(cache)
    assert main(["cache", "--clear"]) == 0
    command = ["train", *training_of(path, tmp_path / "killed", *more)]
    for kill in range(20):
        with process(command) as running:
            while running.poll() is None and not (list(cache.glob(".*.tmp")) if kill < 10 else checkpoints(tmp_path)):
                time.sleep(0.01)
            time.sleep(0.1 * (kill % 10))
            running.kill()
        if kill < 9:
            main(["cache", *entries(cache), "--clear"])
    with process(command) as running:
        running.communicate()
    assert running.returncode == 0
    assert arrow_files(cache) == expected
    whole, killed = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert whole == killed


def checkpoints(folder: Path) -> list[Path]:
    return list((folder / "killed" / "checkpoints").glob("checkpoint-*"))
