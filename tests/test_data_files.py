"""User files: all formats give the same rows, columns and classes are recognized, and splits do not overlap."""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transevolve.cli import parse
from transevolve.core.errors import UserError
from transevolve.data import DataOptions, load_data
from transevolve.data.columns import choose_columns
from transevolve.data.labels import canonical, sorted_names
from transevolve.data.rows import read_rows
from transevolve.data.splitting import stratified_cut, stratified_sample
from transevolve.data.tables import open_table

FORMATS = ["csv", "tsv", "jsonl", "parquet"]
EVERY_FORMAT = pytest.mark.parametrize("name", [f"{kind}{gz}" for kind in FORMATS for gz in ("", ".gz")])
AWKWARD = [
    'He said "no", twice.',
    '"quoted"',
    "tabs\tand, commas; too",
    "two\nlines\r\nor three",
    "\u2028 and \x85 end no line",
    "naïve 漢字 😀",
    " spaces ",
]


def write(path: Path, rows: list[dict], columns: list[str] | None = None) -> Path:
    """A table in the format of the file extension."""
    columns = columns or list(rows[0])
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if plain.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[name] for row in rows] for name in columns}), plain)
    elif plain.suffix == ".jsonl":
        plain.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), newline="")
    else:
        with open(plain, "w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if plain.suffix == ".tsv" else ",")
            writer.writerows([columns, *([row[name] for name in columns] for row in rows)])
    if plain != path:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


def reviews(count: int = 40, text: str = "text", label: str = "label", names=("bad", "good")) -> list[dict]:
    return [{text: f"review number {i} is {i % len(names)}", label: names[i % len(names)]} for i in range(count)]


def load(path, **options):
    return load_data(DataOptions(path=str(path), **({"tokenizer": "byte"} | options)))


def texts_of(data, split: str) -> list[str]:
    return data.tokenizer.batch_decode(data.split(split)["input_ids"][:], skip_special_tokens=True)


@EVERY_FORMAT
def test_every_format_gives_the_same_rows(name, tmp_path):
    rows = [{"text": text, "label": i % 2} for i, text in enumerate(AWKWARD * 2)]
    found = read_rows(open_table(write(tmp_path / f"data.{name}", rows)), "text", "label")
    assert found.texts == AWKWARD * 2
    assert found.labels == ["0", "1"] * len(AWKWARD)


def test_the_texts_of_a_split_are_those_that_were_read(tmp_path):
    data = load(write(tmp_path / "all.csv", reviews()), validation=0.25)
    for split in ("train", "validation"):
        texts, rows = data.texts(split), data.split(split)
        assert [data.tokenizer(text)["input_ids"] for text in texts] == rows["input_ids"][:]
        assert [data.labels.index(names[int(text[-1])]) for text in texts for names in [("bad", "good")]] == rows[
            "labels"
        ][:]
    assert data.texts("test") is None


@EVERY_FORMAT
def test_one_file_is_enough(name, tmp_path):
    data = load(write(tmp_path / f"reviews.{name}", reviews()))
    assert data.labels == ["bad", "good"]
    assert (len(data.train), len(data.validation), data.test) == (36, 4, None)
    assert sorted(texts_of(data, "train") + texts_of(data, "validation")) == sorted(row["text"] for row in reviews())
    for text, label in zip(texts_of(data, "train"), data.train["labels"], strict=True):
        assert text.endswith(str(label))
    assert data.train["length"][:] == [len(row) for row in data.train["input_ids"]]


@EVERY_FORMAT
def test_a_folder_gives_its_splits(name, tmp_path):
    for split, count in {"train": 20, "dev": 6, "test": 8}.items():
        write(tmp_path / f"{split}.{name}", reviews(count))
    data = load(tmp_path)
    assert (len(data.train), len(data.validation), len(data.test)) == (20, 6, 8)
    assert data.report.selection == f"validation, {tmp_path / f'dev.{name}'}"


def test_splits_can_be_files_anywhere(tmp_path):
    train, dev, test = (write(tmp_path / name, reviews(20)) for name in ("a.csv", "b.jsonl", "c.parquet"))
    data = load(train, validation=str(dev), test=str(test))
    assert (len(data.train), len(data.validation), len(data.test)) == (20, 20, 20)
    assert data.report.splits["test"].origin == str(test)


@pytest.mark.parametrize(
    ("text", "label"),
    [("text", "label"), ("Sentence", "class"), ("comment", "Category"), ("review", "verdict"), ("content", "target")],
)
def test_columns_with_obvious_names_are_found(text, label, tmp_path):
    rows = [{"id": i, **row} for i, row in enumerate(reviews(20, text, label))]
    data = load(write(tmp_path / "data.csv", rows))
    assert data.report.columns == {"text": text, "label": label}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("note", "label"), ("review", "mood")])
@pytest.mark.parametrize("label_first", [False, True])
def test_of_two_columns_both_are_found(names, label_first, tmp_path):
    text, label = names
    columns = [label, text] if label_first else [text, label]
    table = open_table(write(tmp_path / "data.csv", reviews(20, text, label), columns))
    assert choose_columns(table) == (text, label)


def test_named_columns_win(tmp_path):
    rows = [{"text": "no", "label": "no", "body": row["text"], "kind": row["label"]} for row in reviews(20)]
    data = load(write(tmp_path / "data.jsonl", rows), text="body", label="kind")
    assert data.report.columns == {"text": "body", "label": "kind"}
    assert data.labels == ["bad", "good"]


def test_the_separator_of_a_csv_file_is_the_headers(tmp_path):
    (tmp_path / "data.csv").write_text("text;label\n" + "yes, it is;1\nno, it is not;0\n" * 10)
    assert load(tmp_path / "data.csv").report.splits["train"].rows == 18


def test_a_stray_quote_in_a_tsv_file_is_text(tmp_path):
    rows = ['"unclosed\tx', 'middle "quote"\ty', 'closed"\tx', '"whole ""field"""\ty'] * 3
    (tmp_path / "data.tsv").write_text("text\tlabel\n" + "\n".join(rows))
    found = read_rows(open_table(tmp_path / "data.tsv"), "text", "label")
    assert found.texts == ['"unclosed', 'middle "quote"', 'closed"', 'whole "field"'] * 3


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"\xef\xbb\xbftext,label\r\nyes,1\r\nno,0\r\n")
    found = read_rows(open_table(tmp_path / "data.csv"), "text", "label")
    assert (found.texts, found.labels) == (["yes", "no"], ["1", "0"])


def test_a_long_field_is_read(tmp_path):
    rows = [{"text": "x" * 300_000, "label": i % 2} for i in range(4)]
    assert len(read_rows(open_table(write(tmp_path / "data.csv", rows)), "text", "label").texts[0]) == 300_000


def test_compression_is_detected_from_the_content(tmp_path):
    write(tmp_path / "data.csv.gz", reviews(20)).rename(tmp_path / "data.csv")
    assert len(load(tmp_path / "data.csv").train) == 18


@EVERY_FORMAT
@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([10, 9, 1], ["1", "9", "10"]),
        ([1.0, 0.0, 2.0], ["0", "1", "2"]),
        ([0.5, -1.0, 2.5], ["-1", "0.5", "2.5"]),
        ([True, False, True], ["False", "True"]),
        (["b", "a", "B"], ["B", "a", "b"]),
        (["10", "x", "9"], ["10", "9", "x"]),
        (["0", "-0.0", "1"], ["0", "1"]),
        (["1e16", "10000000000000000", "1E+16"], ["10000000000000000"]),
        (["1e-05", "0.00001", "2"], ["0.00001", "2"]),
        (["3.10", "3.1", "007"], ["3.1", "3.10", "007"]),
    ],
)
def test_classes_have_one_name_and_an_order(name, values, names, tmp_path):
    rows = [{"text": f"row {i}", "label": values[i % 3]} for i in range(30)]
    found = read_rows(open_table(write(tmp_path / f"data.{name}", rows)), "text", "label")
    assert sorted_names(found.labels) == names


@given(st.integers(-(10**6), 10**6))
def test_a_whole_number_is_one_class_in_any_type(number):
    spellings = (number, float(number), str(number), f" {number}.0 ", f"{number}e0", f"{float(number):.6e}")
    assert {canonical(value) for value in spellings} == {str(number)}


@pytest.mark.parametrize(
    ("value", "name"), [(-0.0, "0"), (1e16, "10000000000000000"), (1e-5, "0.00001"), (1e400, "inf")]
)
def test_a_number_has_the_class_of_its_value(value, name):
    assert canonical(value) == name


@given(st.lists(st.integers(-1000, 1000), unique=True))
def test_numeric_classes_are_sorted_by_value(numbers):
    assert sorted_names(map(str, numbers)) == [str(number) for number in sorted(numbers)]


@given(
    counts=st.lists(st.integers(2, 60), min_size=2, max_size=5),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_cut_is_stratified_and_complete(counts, share, seed):
    classes = np.repeat(np.arange(len(counts)), counts)
    rest, cut = stratified_cut(classes, share, seed)
    assert sorted([*rest, *cut]) == list(range(len(classes)))
    for label, count in enumerate(counts):
        taken = (classes[cut] == label).sum()
        assert 1 <= taken < count
        assert abs(taken - count * share) <= 1
    again = stratified_cut(classes, share, seed)
    assert (again[1] == cut).all()


@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=5), data=st.data())
def test_a_sample_has_the_requested_size(counts, data):
    classes = np.repeat(np.arange(len(counts)), counts)
    wanted = data.draw(st.integers(0, len(classes)))
    sample = stratified_sample(classes, wanted, seed=0)
    assert len(set(sample.tolist())) == wanted
    for label, count in enumerate(counts):
        assert abs((classes[sample] == label).sum() - count * wanted / len(classes)) < 1


def test_the_cut_follows_the_seed(tmp_path):
    path = write(tmp_path / "data.csv", reviews(60))
    first, same, other = (texts_of(load(path, seed=seed), "validation") for seed in (0, 0, 1))
    assert first == same != other


@pytest.mark.parametrize(("share", "cut", "percent"), [(None, 4, "10 %, at most 10,000"), (0.25, 10, "25 %")])
def test_the_report_names_the_origin_of_validation(share, cut, percent, tmp_path):
    data = load(write(tmp_path / "data.csv", reviews(40)), validation=share)
    assert len(data.validation) == cut
    assert data.report.splits["validation"].origin == f"cut from train (seed 0, stratified, {percent})"
    assert data.report.selection == f"validation, cut from train (seed 0, stratified, {percent})"


@pytest.mark.parametrize(("more", "rows"), [({}, 4), ({"validation": 0.5}, 36), ({"validation_rows": 7}, 7)])
def test_a_cut_shrinks_with_the_training_rows(more, rows, tmp_path):
    data = load(write(tmp_path / "data.csv", reviews(200)), train_rows=36, **more)
    assert (len(data.train), len(data.validation)) == (36, rows)


def test_a_cut_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr("transevolve.data.parts.MOST_ROWS", 6)
    path = write(tmp_path / "data.csv", reviews(200))
    assert len(load(path).validation) == 6
    assert len(load(path).train) == 194
    assert len(load(path, validation=0.1).validation) == 20


def test_an_explicit_fraction_overrides_the_file_in_the_folder(tmp_path):
    write(tmp_path / "train.csv", reviews(40))
    write(tmp_path / "validation.csv", reviews(6))
    assert len(load(tmp_path, validation=0.5).validation) == 20


def test_no_validation_on_request(tmp_path):
    data = load(write(tmp_path / "data.csv", reviews(40)), validation=0)
    assert (len(data.train), data.validation) == (40, None)
    assert data.report.selection == "no split: data.validation is 0"


def test_rows_are_sampled_on_request(tmp_path):
    for split in ("train", "test"):
        write(tmp_path / f"{split}.csv", reviews(100))
    data = load(tmp_path, train_rows=20, validation_rows=6, test_rows=500)
    assert (len(data.train), len(data.validation), len(data.test)) == (20, 6, 100)
    assert Counter(data.train["labels"]) == {0: 10, 1: 10}
    assert data.report.splits["train"].origin.endswith("train.csv, a stratified sample of 90 rows (seed 0)")


def test_the_report_counts(tmp_path):
    texts = ["", "   ", "short", "exactly 8", "much too long for this"] * 4
    rows = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(texts)]
    data = load(write(tmp_path / "data.csv", rows), max_length=10, validation=0)
    facts = data.report.splits["train"]
    assert (facts.rows, facts.empty, facts.truncated) == (20, 8, 4)
    assert facts.classes == {"a": 10, "b": 10}
    assert facts.tokens == sum(data.train["length"]) == 4 * (1 + 4 + 6 + 10 + 10)
    assert max(data.train["length"]) == 10
    assert "4 (20.0 %) were too long and cut (29.5 % of tokens); 8 without text, kept" in "\n".join(data.report.lines())
    assert json.loads(json.dumps(data.report.as_dict()))["splits"]["train"]["truncated"] == 4


@pytest.mark.parametrize("name", ["data.jsonl", "data.parquet"])
def test_a_missing_text_is_an_empty_one(name, tmp_path):
    rows = [{"text": None if i % 4 == 0 else "x", "label": i % 2} for i in range(20)]
    assert load(write(tmp_path / name, rows), validation=0).report.splits["train"].empty == 5


def test_a_saved_model_reads_one_split_with_its_own_tokenizer_and_labels(tmp_path):
    path = write(tmp_path / "data.csv", reviews(60))
    trained = load(path, tokenizer="char", max_length=12)
    options = DataOptions(path=str(path), tokenizer="char")
    data = load_data(options, tokenizer=trained.tokenizer, labels=trained.labels, splits=["validation"])
    assert data.train is data.test is None
    assert data.validation[:] == trained.validation[:]


def test_a_saved_model_needs_no_training_file_to_test(tmp_path):
    path = write(tmp_path / "train.csv", reviews(60))
    trained = load(path)
    test = write(tmp_path / "other.csv", reviews(8))
    path.write_text("text,label\n")
    options = DataOptions(path=str(path), test=str(test))
    data = load_data(options, tokenizer=trained.tokenizer, labels=trained.labels, splits=["test"])
    assert len(data.test) == 8


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_can_be_learned_for_classes_too(kind, tmp_path):
    data = load(write(tmp_path / "data.csv", reviews(40)), tokenizer=kind, vocab_size=280)
    assert len(data.tokenizer) <= 280
    assert texts_of(data, "train")[0] in {row["text"] for row in reviews(40)}


def test_the_command_line_can_set_every_option():
    arguments = ["--data.path=d.csv", "--data.text=body", "--data.validation=0.2", "--data.brackets=drop"]
    options = parse(["train", *arguments])[1].load().data
    assert options == DataOptions(path="d.csv", text="body", validation=0.2, brackets="drop")
    assert parse(["train", "--data.validation=dev.csv"])[1].load().data.validation == "dev.csv"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "fils"}, "there is no task 'fils'.*did you mean 'files'"),
        ({}, "the task 'files' needs data.path"),
        ({"task": "imdb"}, "the task 'imdb' needs data.path.*data.hub stanfordnlp/imdb downloads it"),
        ({"path": "a", "hub": "b"}, "both set"),
        ({"path": "a", "min_length": 5}, "data.min_length is not used by the task 'files'"),
        ({"task": "imdb", "path": "a", "source": "x.en"}, "data.source is not used by"),
        ({"path": "a", "hub_config": "b"}, "data.hub_config is set without data.hub"),
        ({"path": "a", "validation": 1.5}, "data.validation must be a file, or a fraction"),
        ({"path": "a", "max_length": 0}, "data.max_length must be at least 1"),
        ({"path": "a", "seed": -1}, "data.seed must be at least 0"),
        ({"path": "a", "tokenizer": "wordpeace"}, "did you mean 'wordpiece'"),
        ({"path": "a", "vocab": "v.txt", "tokenizer": "byte"}, "data.vocab contains word pieces"),
        ({"path": "a", "vocab": "v.txt", "vocab_size": 100}, "remove data.vocab_size"),
        ({"path": "a", "vocab_size": 100, "tokenizer": "byte"}, "has a fixed vocabulary"),
        ({"task": "imdb-char", "path": "a", "vocab": "v.txt"}, "cannot be used with data.tokenizer 'char'"),
        ({"task": "listops", "brackets": "lose"}, "data.brackets must be keep or drop"),
    ],
)
def test_an_invalid_option_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        load_data(DataOptions(**changes))
