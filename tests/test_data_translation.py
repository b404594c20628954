"""Pairs of sentences from files, folders and the hub: skipped, truncated, kept and refused pairs."""

import gzip
import json
import os
import re
from pathlib import Path

import datasets
import pytest
import torch

from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.data import TASKS, DataOptions, load_data, task_of, translation

DATA = os.environ.get("TRANSEVOLVE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="TRANSEVOLVE_DATA names no folder with the real data")
ENGLISH = [f"Two dogs and {i} cats play in the snow." for i in range(40)]
GERMAN = [f"Zwei Hunde und {i} Katzen spielen im Schnee." for i in range(40)]
EN_DE = {"source_lang": "en", "target_lang": "de"}


def write(path: Path, lines: list[str], end: str = "\n") -> str:
    content = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def files(folder: Path, source: list[str] = ENGLISH, target: list[str] = GERMAN, name: str = "train") -> dict[str, str]:
    prefix = "" if name == "train" else f"{name}_"
    return {
        f"{prefix}source": write(folder / f"{name}.en", source),
        f"{prefix}target": write(folder / f"{name}.de", target),
    }


def load(**options):
    return load_data(DataOptions(**({"vocab_size": 400} | options)))


def texts_of(data, split: str, column: str) -> list[str]:
    return data.tokenizer.batch_decode(data.split(split)[column][:], skip_special_tokens=True)


def pairs_of(data, split: str) -> list[tuple[str, str]]:
    return list(zip(texts_of(data, split, "input_ids"), texts_of(data, split, "labels"), strict=True))


def refused(message: str, **options) -> None:
    with pytest.raises(UserError) as caught:
        load(**options)
    reported = str(caught.value)
    assert re.search(message, reported), reported
    assert "\n" not in reported


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_two_files_are_enough(kind, tmp_path):
    data = load(**files(tmp_path), tokenizer=kind)
    assert (data.labels, data.report.task) == ([], "translation")
    assert (len(data.train), len(data.validation), data.test) == (38, 2, None)
    everything = pairs_of(data, "train") + pairs_of(data, "validation")
    assert sorted(everything) == sorted(zip(ENGLISH, GERMAN, strict=True))


def test_the_columns(tmp_path):
    data = load(**files(tmp_path))
    assert data.train.column_names == ["input_ids", "labels", "length"]
    assert data.validation.column_names == ["input_ids", "labels", "length", "source", "target"]
    for row in data.validation:
        assert row["input_ids"] == data.tokenizer(row["source"])["input_ids"]
        assert row["labels"] == data.tokenizer(text_target=row["target"])["input_ids"]
        assert row["input_ids"][-1] == row["labels"][-1] == data.tokenizer.eos_token_id == 2
        assert row["length"] == max(len(row["input_ids"]), len(row["labels"]))


def test_the_model_takes_the_rows_as_they_are(tmp_path):
    data = load(**files(tmp_path))
    config = TransEvolveConfig(
        vocab_size=len(data.tokenizer), hidden_size=16, num_attention_heads=2, intermediate_size=32, num_blocks=1
    )
    model = TransEvolveForConditionalGeneration(config)
    row = data.train[0]
    output = model(input_ids=torch.tensor([row["input_ids"]]), labels=torch.tensor([row["labels"]]))
    assert output.logits.shape == (1, len(row["labels"]), len(data.tokenizer))
    assert output.loss.isfinite()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_only_a_line_feed_ends_a_line(end, suffix, tmp_path):
    awkward = ["a\u2028b", "c\x85d", " spaced ", "e\x0cf", "tab\tg"]
    source = write(tmp_path / f"train.en{suffix}", awkward, end)
    target = write(tmp_path / f"train.de{suffix}", [text.upper() for text in awkward], end)
    data = load(source=source, target=target, validation=0)
    assert pairs_of(data, "train") == [(text, text.upper()) for text in awkward]


def test_files_for_validation_and_test(tmp_path):
    validation = files(tmp_path, ENGLISH[:5], GERMAN[:5], "validation")
    test = files(tmp_path, ENGLISH[:7], GERMAN[:7], "test")
    data = load(**files(tmp_path), **validation, **test, **EN_DE)
    assert (len(data.train), len(data.validation), len(data.test)) == (40, 5, 7)
    assert data.test["source"][:] == ENGLISH[:7]
    assert data.test["target"][:] == GERMAN[:7]
    assert data.report.selection == f"validation, {tmp_path / 'validation.en'} and {tmp_path / 'validation.de'}"
    assert data.report.languages == {"source": "en", "target": "de"}


def folder(path: Path, suffix: str = "", validation: str = "val", test: str = "test_2016_flickr") -> str:
    for name, count in {"train": 40, validation: 5, test: 7}.items():
        for language, texts in {"en": ENGLISH, "de": GERMAN, "fr": ENGLISH[::-1]}.items():
            write(path / f"{name}.{language}{suffix}", texts[:count])
    return str(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("validation", ["val", "validation", "valid", "dev"])
def test_a_folder_gives_its_splits(suffix, validation, tmp_path):
    data = load(path=folder(tmp_path, suffix, validation), source_lang="de", target_lang="en")
    assert (len(data.train), len(data.validation), len(data.test)) == (40, 5, 7)
    assert pairs_of(data, "train") == list(zip(GERMAN, ENGLISH, strict=True))
    name = tmp_path / f"test_2016_flickr.de{suffix}"
    assert data.report.splits["test"].origin.startswith(f"{name} and ")
    assert "languages: source = 'de', target = 'en'" in data.report.lines()


def test_of_several_test_files_the_plain_one_is_taken_or_one_is_named(tmp_path):
    path = folder(tmp_path)
    other = files(tmp_path, ENGLISH[:3], GERMAN[:3], "test_2017")
    refused("'test_2016_flickr', 'test_2017' could each be test; name one with data.test_source", path=path, **EN_DE)
    named = {"test_source": other["test_2017_source"], "test_target": other["test_2017_target"]}
    assert len(load(path=path, **EN_DE, **named).test) == 3
    files(tmp_path, ENGLISH[:2], GERMAN[:2], "test")
    assert len(load(path=path, **EN_DE).test) == 2


@pytest.mark.parametrize(
    ("changes", "task"),
    [
        ({"source": "a", "target": "b"}, "translation"),
        ({"path": "a"} | EN_DE, "translation"),
        ({"task": "translation", "path": "a"}, "translation"),
        ({"path": "a"}, "files"),
        ({"task": "imdb", "source": "a"}, "imdb"),
    ],
)
def test_the_task_follows_from_the_options(changes, task):
    assert task_of(DataOptions(**changes)) == task
    assert TASKS[task].kind == ("translation" if task == "translation" else "classification")


def hub(monkeypatch, nested: bool = True) -> list:
    rows = [{"en": source, "de": target} for source, target in zip(ENGLISH, GERMAN, strict=True)]
    splits = {
        name: datasets.Dataset.from_list([{"translation": row} for row in rows[:count]] if nested else rows[:count])
        for name, count in {"train": 40, "validation": 5, "test": 7}.items()
    }
    asked = []

    def load_dataset(*arguments, **_):
        asked.append(arguments)
        return datasets.DatasetDict(splits)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize("nested", [True, False])
def test_a_dataset_of_the_hub(nested, monkeypatch):
    asked = hub(monkeypatch, nested)
    data = load(hub="wmt/wmt14", hub_config="de-en", **EN_DE)
    assert asked == [("wmt/wmt14", "de-en")]
    assert (len(data.train), len(data.validation), len(data.test)) == (40, 5, 7)
    assert data.test["target"][:] == GERMAN[:7]
    assert data.report.splits["test"].origin == "wmt/wmt14, de-en (test)"
    refused(
        "data.hub 'wmt/wmt14': there is no language 'fr' .*there are '(en|de)', '(en|de)'",
        hub="wmt/wmt14",
        source_lang="en",
        target_lang="fr",
    )


def test_training_skips_and_reports_long_and_empty_pairs(tmp_path):
    source = [*ENGLISH, "", "  ", "text", "long " * 50, "short"]
    target = [*GERMAN, "text", "text", "", "short", "long " * 50]
    data = load(**files(tmp_path, source, target), validation=0, max_length=40, vocab_size=400)
    facts = data.report.splits["train"]
    assert (facts.rows, facts.skipped_empty, facts.skipped_long) == (len(data.train), 3, 2) == (40, 3, 2)
    assert pairs_of(data, "train") == list(zip(ENGLISH, GERMAN, strict=True))
    assert facts.target_tokens == sum(map(len, data.train["labels"]))
    assert facts.tokens == facts.target_tokens + sum(map(len, data.train["input_ids"]))
    assert facts.unknown == 0
    reported = "\n".join(data.report.lines())
    assert "2 (4.8 %) were too long and skipped; 3 with an empty side skipped" in reported
    assert json.loads(json.dumps(data.report.as_dict()))["splits"]["train"]["skipped_long"] == 2


def test_scored_pairs_are_cut_but_never_skipped(tmp_path):
    source, target = ["long " * 50, "", "a dog", "b"], ["short", "text", "", "long " * 50]
    test = files(tmp_path, source, target, "test")
    data = load(**files(tmp_path), **test, max_length=40)
    facts = data.report.splits["test"]
    assert (facts.rows, facts.empty, facts.truncated, facts.truncated_targets) == (4, 2, 1, 1)
    assert (data.test["source"][:], data.test["target"][:]) == (source, target)
    assert data.test[0]["length"] == len(data.test[0]["input_ids"]) == 40
    assert data.test[0]["input_ids"][-1] == data.tokenizer.eos_token_id
    assert data.test[1]["input_ids"] == [data.tokenizer.eos_token_id]
    reported = "\n".join(data.report.lines())
    assert "1 (25.0 %) sources were too long and cut; 1 (25.0 %) targets were too long and cut for the loss" in reported
    assert "2 with an empty side, kept" in reported


def test_the_longest_line_that_fits_is_kept(tmp_path):
    tokenizer = load(**files(tmp_path)).tokenizer
    longest = max(len(tokenizer(text)["input_ids"]) for text in ENGLISH + GERMAN)
    options = DataOptions(**files(tmp_path), max_length=longest, validation=0)
    assert load_data(options, tokenizer=tokenizer).report.splits["train"].skipped_long == 0
    options.max_length = longest - 1
    assert load_data(options, tokenizer=tokenizer).report.splits["train"].skipped_long > 0


@pytest.mark.parametrize(("share", "cut", "reported"), [(None, 2, "5 %, at most 2,000"), (0.25, 10, "25 %")])
def test_validation_is_cut_from_train(share, cut, reported, tmp_path):
    data, again = (load(**files(tmp_path), validation=share) for _ in range(2))
    other = load(**files(tmp_path), validation=share, seed=1)
    assert len(data.validation) == cut
    assert data.validation[:] == again.validation[:] != other.validation[:]
    assert data.report.selection == f"validation, cut from train (seed 0, {reported})"
    assert data.report.splits["validation"].origin == f"cut from train (seed 0, {reported})"


def test_a_large_train_gives_no_more_than_enough(tmp_path, monkeypatch):
    assert translation.MOST_PAIRS == 2000
    monkeypatch.setattr(translation, "MOST_PAIRS", 3)
    lines = [str(i) for i in range(400)]
    data = load(**files(tmp_path, lines, lines))
    assert (len(data.train), len(data.validation)) == (397, 3)


def test_a_share_wins_over_the_folders_files_and_0_means_none(tmp_path):
    path = folder(tmp_path)
    assert len(load(path=path, **EN_DE, validation=0.5).validation) == 20
    none = load(path=path, **EN_DE, validation=0)
    assert (len(none.train), none.validation) == (40, None)


def test_pairs_are_sampled_on_request(tmp_path):
    data = load(path=folder(tmp_path), **EN_DE, train_rows=10, validation_rows=3, test_rows=100)
    assert (len(data.train), len(data.validation), len(data.test)) == (10, 3, 7)
    assert set(pairs_of(data, "train")) < set(zip(ENGLISH, GERMAN, strict=True))
    assert data.report.splits["train"].origin.endswith("a sample of 40 pairs (seed 0)")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_files_give_the_same_data(kind, tmp_path):
    first, second = (load(**files(tmp_path), tokenizer=kind) for _ in range(2))
    assert first.train[:] == second.train[:]
    assert first.train._fingerprint == second.train._fingerprint != first.validation._fingerprint


def test_a_saved_model_reads_one_split_with_its_own_tokenizer(tmp_path):
    options = DataOptions(path=folder(tmp_path), **EN_DE, vocab_size=300, max_length=50)
    trained = load_data(options)
    write(tmp_path / "train.en", [])
    data = load_data(options, tokenizer=trained.tokenizer, splits=["test"])
    assert data.train is data.validation is None
    assert data.test[:] == trained.test[:]
    assert data.report.max_length == 50


def test_a_saved_model_finds_the_validation_pairs_of_its_training(tmp_path):
    options = DataOptions(**files(tmp_path), vocab_size=300)
    trained = load_data(options)
    data = load_data(options, tokenizer=trained.tokenizer, splits=["validation"])
    assert data.validation[:] == trained.validation[:]


def test_the_tokenizer_of_a_classifier_is_refused(tmp_path):
    (tmp_path / "data.csv").write_text("text,label\nyes,1\nno,0\n" + "yes,1\nno,0\n" * 5)
    classifier = load_data(DataOptions(path=str(tmp_path / "data.csv"), tokenizer="byte"))
    with pytest.raises(UserError, match="has no end token"):
        load_data(DataOptions(**files(tmp_path)), tokenizer=classifier.tokenizer)


def test_files_of_different_lengths(tmp_path):
    named = files(tmp_path, ENGLISH, GERMAN[:-2])
    refused(r"train\.en has 40 lines and .*train\.de has 38: each line must be", **named)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"train\.de: the file is empty; put one sentence in each line"),
        (b"\n" * 40, r"train\.de: all 40 lines are empty"),
        (b"gut\n" * 6 + b"schlecht \xfc\n", r"train\.de, line 7: byte 0xfc at position 10 is not UTF-8"),
    ],
)
@pytest.mark.parametrize("compress", [False, True])
def test_a_side_that_cannot_be_used(content, message, compress, tmp_path):
    named = files(tmp_path)
    Path(named["target"]).write_bytes(gzip.compress(content) if compress else content)
    refused(message, **named)


def test_no_line_with_text_on_both_sides(tmp_path):
    refused("no line has text on both sides; check that", **files(tmp_path, ["a", "", "b", ""], ["", "c", "", "d"]))


def test_every_line_too_long(tmp_path):
    refused("every pair has a side of more than 3 tokens; increase data.max_length", **files(tmp_path), max_length=3)


def test_one_pair_cannot_be_cut(tmp_path):
    refused("one pair cannot be cut", **files(tmp_path, ["a"], ["b"]))


def test_a_missing_file(tmp_path):
    named = files(tmp_path)
    Path(named["target"]).unlink()
    refused(r"train\.de: no such file: check the path", **named)
    refused(r"nowhere: there is no such folder; check data\.path", path=str(tmp_path / "nowhere"), **EN_DE)


def test_a_table_is_not_a_file_of_lines(tmp_path):
    (tmp_path / "train.csv").write_text("en,de\na,b\n")
    refused(
        r"train\.csv: a table, but translation needs a text file",
        **files(tmp_path) | {"source": f"{tmp_path}/train.csv"},
    )
    refused(r"train\.csv: not a folder; give two files with data\.source", path=str(tmp_path / "train.csv"), **EN_DE)


def test_a_language_that_the_folder_does_not_have(tmp_path):
    path = folder(tmp_path)
    refused(
        r"no language 'fra' \(data\.target_lang\); there are 'de', 'en', 'fr'; did you mean 'fr'",
        path=path,
        source_lang="en",
        target_lang="fra",
    )
    refused("name the target language with data.target_lang; there are 'de', 'en', 'fr'", path=path, source_lang="en")
    refused("name the source language", task="translation", path=path)
    refused("both 'en': name two different languages", path=path, source_lang="en", target_lang="en")


def test_half_a_folder(tmp_path):
    path = folder(tmp_path)
    (tmp_path / "val.de").unlink()
    refused(r"there is no val\.de, the other side of val", path=path, **EN_DE)
    write(tmp_path / "val.de", GERMAN[:5])
    write(tmp_path / "val.de.gz", GERMAN[:5])
    refused(r"'val\.de', 'val\.de\.gz' are the same file twice", path=path, **EN_DE)
    write(tmp_path / "dev.de", GERMAN[:5])
    refused(r"'dev', 'val' could each be validation; name one with data\.validation_source", path=path, **EN_DE)


def test_a_folder_without_training_files(tmp_path):
    write(tmp_path / "test.en", ENGLISH)
    refused(r"no training file; looked for train\.LANGUAGE, .*found 'test\.en'", path=str(tmp_path), **EN_DE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "a"}, "data.source is set without data.target: name both files"),
        ({"target": "a"}, "data.target is set without data.source"),
        ({"source": "a", "target": "b", "test_target": "c"}, "data.test_target is set without data.test_source"),
        ({"path": "a", "source": "b", "target": "c"}, "data.path and data.source are both set: remove one"),
        ({"path": "a", "target": "c"}, "data.path and data.target are both set"),
        ({"hub": "a", "source": "b", "target": "c"}, "data.hub and data.source are both set"),
        ({"path": "a", "hub": "b", "source_lang": "en"}, "data.path and data.hub are both set"),
        ({"task": "translation"}, "translation needs data.source and data.target"),
        ({"source": "a", "target": "b", "label": "c"}, "data.label is not used by the task 'translation'"),
        (
            {"source": "a", "target": "b", "tokenizer": "byte"},
            "'byte' cannot be used for translation: choose from 'bpe'",
        ),
        ({"source": "a", "target": "b", "tokenizer": "bqe"}, "'bqe' is unknown.*did you mean 'bpe'"),
        ({"task": "translatoin", "source": "a"}, "no task 'translatoin'.*did you mean 'translation'"),
    ],
)
def test_options_that_do_not_fit_together(changes, message):
    refused(message, **changes)


def test_validation_is_two_files_or_a_share(tmp_path):
    refused("data.validation names one file, but translation needs two", **files(tmp_path), validation="dev.en")
    two = files(tmp_path, ENGLISH, GERMAN, "validation")
    refused("data.validation and data.validation_source are both set", **files(tmp_path), **two, validation=0.1)


def test_a_misspelt_option_is_refused_with_the_nearest(capsys):
    assert main(["train", "--data.source_lagn", "en"]) == 2
    assert "unknown option '--data.source_lagn'; did you mean '--data.source_lang'" in capsys.readouterr().err


@needs_data
def test_multi30k():
    data = load_data(DataOptions(path=str(Path(str(DATA), "multi30k")), **EN_DE, train_rows=3000, vocab_size=2000))
    assert (len(data.validation), len(data.test), len(data.tokenizer)) == (1014, 1000, 2000)
    assert data.report.splits["train"].origin.endswith("a sample of 29,000 pairs (seed 0)")
    assert texts_of(data, "test", "labels") == data.test["target"][:]
    assert data.test["target"][0] == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."
    assert data.report.splits["test"].truncated == data.report.splits["test"].unknown == 0
