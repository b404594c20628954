"""Errors in files are one line: which file, which line, and what to do."""

import gzip
import os
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from test_data_files import FORMATS, load, reviews, write
from transevolve.core.errors import UserError, nearest, quoted

HEAD = "text,label\n"
BODY = "yes,1\nno,0\n" * 3


def refused(path, message: str, **options) -> None:
    """Loading fails with a one-line message that names the file."""
    with pytest.raises(UserError) as caught:
        load(path, **options)
    reported = str(caught.value)
    assert re.search(message, reported), reported
    assert "\n" not in reported


def test_a_missing_file(tmp_path):
    refused(tmp_path / "no.csv", r"no\.csv: there is no such file or folder; check data\.path")


def test_a_missing_validation_file(tmp_path):
    path = write(tmp_path / "train.csv", reviews())
    refused(path, r"dev\.csv: no such file", validation=str(tmp_path / "dev.csv"))


@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, rf"{name}: the file is empty")


def test_an_empty_parquet_file(tmp_path):
    pq.write_table(
        pa.table({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}), tmp_path / "d.parquet"
    )
    refused(tmp_path / "d.parquet", r"d\.parquet: the file contains no rows")


def test_a_file_with_only_a_header(tmp_path):
    (tmp_path / "data.csv").write_text(HEAD)
    refused(tmp_path / "data.csv", "contains no rows")


def test_an_unknown_file_type(tmp_path):
    (tmp_path / "data.xlsx").write_text("x")
    refused(tmp_path / "data.xlsx", r"data\.xlsx: unknown file type; use \.csv, \.tsv, \.jsonl or \.parquet")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("role", ["text", "label"])
def test_a_wrong_column(kind, role, tmp_path):
    path = write(tmp_path / f"data.{kind}", reviews(text="review", label="verdict"))
    near = {"text": "reveiw", "label": "Verdikt"}[role]
    right = {"text": "review", "label": "verdict"}[role]
    columns = f"the columns are 'review', 'verdict'; did you mean '{right}'"
    refused(path, f"no column '{near}' for the {role}s; {columns}", **{role: near})


@pytest.mark.parametrize("missing", ["text", "label"])
def test_a_column_that_cannot_be_recognized(missing, tmp_path):
    names = {"text": "text", "label": "label"} | {missing: "field"}
    rows = [{"id": i, **row} for i, row in enumerate(reviews(**names))]
    refused(write(tmp_path / "data.csv", rows), f"Name it with data.{missing}: 'id', ")


def test_two_columns_of_the_same_kind(tmp_path):
    rows = [{"a": f"x{i}", "b": f"y{i}"} for i in range(9)]
    refused(write(tmp_path / "data.csv", rows), "which of 'a', 'b' contains the texts")


def test_two_columns_that_both_look_like_texts(tmp_path):
    rows = [{"title": "t", "description": "d", "label": i % 2} for i in range(9)]
    refused(write(tmp_path / "data.csv", rows), "which column contains the texts.*'title', 'description', 'label'")


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "data.csv").write_text("text,text,label\na,b,0\n")
    refused(tmp_path / "data.csv", "two columns named 'text'")


def test_one_column_for_both(tmp_path):
    refused(write(tmp_path / "data.csv", reviews()), "name the column 'text' twice", text="text", label="text")


def test_a_file_without_a_header(tmp_path):
    (tmp_path / "data.csv").write_text("I like it,good\nI hate it,bad\nIt is fine,good\nNot fine,bad\n")
    refused(tmp_path / "data.csv", r"line 1: 'good' is a label here and in other lines, so the file has no header")


def test_validation_with_other_columns(tmp_path):
    write(tmp_path / "train.csv", reviews())
    write(tmp_path / "validation.csv", reviews(text="sentence"))
    refused(tmp_path, r"validation\.csv: there is no column 'text'.*'sentence', 'label'")


@pytest.mark.parametrize("kind", FORMATS)
def test_one_class_only(kind, tmp_path):
    path = write(tmp_path / f"data.{kind}", reviews(names=["same"]))
    refused(path, "all 40 rows have the same label 'same'; a classifier needs two classes")


@pytest.mark.parametrize(
    ("kind", "place"), [("csv", "line 4"), ("tsv", "line 4"), ("jsonl", "line 3"), ("parquet", "row 3")]
)
@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_label_unseen_in_training(kind, place, split, tmp_path):
    write(tmp_path / f"train.{kind}", reviews())
    rows = reviews(6)
    rows[2]["label"] = "goood"
    write(tmp_path / f"{split}.{kind}", rows)
    refused(
        tmp_path,
        rf"{split}\.{kind}, {place}: the label 'goood' is not among those of train: 'bad', 'good'; did you mean 'good'",
    )


@pytest.mark.parametrize(
    ("kind", "place"), [("csv", "line 5"), ("tsv", "line 5"), ("jsonl", "line 4"), ("parquet", "row 4")]
)
def test_an_empty_label(kind, place, tmp_path):
    rows = reviews()
    rows[3]["label"] = None
    refused(write(tmp_path / f"data.{kind}", rows), f"{place}: the label 'label' is empty; fill it in, or remove")


@pytest.mark.parametrize("name", ["data.csv", "data.tsv"])
@pytest.mark.parametrize("compress", [False, True])
def test_bytes_that_are_not_utf8(name, compress, tmp_path):
    separator = b"\t" if name.endswith("tsv") else b","
    content = b"text,label\nyes,1\ncaf\xe9,0\n".replace(b",", separator)
    (tmp_path / name).write_bytes(gzip.compress(content) if compress else content)
    refused(tmp_path / name, rf"{name}, line 3: byte 0xe9 at position 4 is not UTF-8; save the file as UTF-8")


def test_json_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "data.jsonl").write_bytes(b'{"text": "a", "label": 1}\n{"text": "\xff", "label": 0}\n')
    refused(tmp_path / "data.jsonl", "line 2: byte 0xff at position 11 is not UTF-8")


def test_parquet_bytes_that_are_not_utf8(tmp_path):
    texts = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    pq.write_table(pa.table({"text": texts, "label": [0, 1, 0]}), tmp_path / "data.parquet")
    refused(tmp_path / "data.parquet", r"data\.parquet, row 2: not UTF-8")


@pytest.mark.parametrize("name", ["data.csv", "data.tsv", "data.jsonl", "data.parquet"])
def test_a_pipe_is_refused_at_once(name, tmp_path):
    os.mkfifo(tmp_path / name)
    refused(tmp_path / name, rf"{name} is a pipe or a device: use a regular file")


def test_a_device_is_refused_at_once(tmp_path):
    (tmp_path / "data.csv").symlink_to("/dev/zero")
    refused(tmp_path / "data.csv", r"data\.csv is a pipe or a device")


def test_half_a_surrogate_pair(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b\\ud83d", "label": 0}\n')
    refused(tmp_path / "data.jsonl", r"line 2: 'text' contains '\\ud83d', an unpaired surrogate")


def test_half_a_surrogate_pair_in_a_label(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "\\ud800"}\n' * 9)
    refused(tmp_path / "data.jsonl", r"line 2: the label 'label' contains '\\ud800', an unpaired surrogate")


def test_half_a_surrogate_pair_in_a_column_name(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "a", "\\ud800": "x"}\n' * 9)
    refused(tmp_path / "data.jsonl", r"data\.jsonl: the column '\\ud800' contains '\\ud800', an unpaired surrogate")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("one,two,three\n", "line 8: 3 fields, but the header has 2"),
        ("one\n", "line 8: 1 fields, but the header has 2"),
        ('"one" two,1\n', "line 8: malformed row"),
        ('"never closed,1\nx,0\n', "line 8: malformed row"),
    ],
)
def test_a_malformed_csv_row(row, message, tmp_path):
    (tmp_path / "data.csv").write_text(HEAD + BODY + row)
    refused(tmp_path / "data.csv", message)


def test_line_numbers_count_lines_within_quotes(tmp_path):
    (tmp_path / "data.csv").write_text(HEAD + '"two\nlines",1\n\nno,0\none,two,three\n')
    refused(tmp_path / "data.csv", "line 6: 3 fields")


def test_a_malformed_tsv_row(tmp_path):
    (tmp_path / "data.tsv").write_text("text\tlabel\nyes\t1\nno\n")
    refused(tmp_path / "data.tsv", "line 3: 1 fields, but the header has 2")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": "x", ', "line 3: malformed json"),
        ('["x", 1]', "line 3: not an object"),
        ('{"text": "x", "label": 1, "label": 0}', r"line 3: malformed json \(the key 'label' appears twice\)"),
        ('{"text": "x", "label": ' + "[" * 100_000, r"line 3: malformed json \(brackets are nested too deeply\)"),
        ('{"text": "x", "label": ' + "7" * 4400 + "}", r"line 3: malformed json \(a number has 4,400 digits"),
        ('{"text": "x"}', "line 3: there is no 'label', only 'text'"),
        ('{"text": 5, "label": 1}', "line 3: 'text' contains a int, not a text"),
        ('{"text": "x", "label": [1]}', "line 3: 'label' contains a list, not a class"),
    ],
)
def test_a_malformed_json_row(row, message, tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n' + row + "\n")
    refused(tmp_path / "data.jsonl", message)


def test_a_damaged_parquet_file(tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"PAR1 no")
    refused(tmp_path / "data.parquet", r"data\.parquet: not a parquet file")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_gzip_file_cut_short(kind, tmp_path):
    path = write(tmp_path / f"data.{kind}.gz", reviews())
    path.write_bytes(path.read_bytes()[:-20])
    refused(path, "the gzip data is damaged or cut short")


def test_a_folder_without_a_training_file(tmp_path):
    write(tmp_path / "data.csv", reviews())
    refused(tmp_path, r"there is no training file; looked for train or training with \.csv, .*found 'data\.csv'")


def test_a_folder_with_two_training_files(tmp_path):
    write(tmp_path / "train.csv", reviews())
    write(tmp_path / "train.jsonl", reviews())
    refused(tmp_path, r"'train\.csv', 'train\.jsonl' could each be train; keep one")


def test_a_class_with_too_few_rows_to_stratify(tmp_path):
    rows = reviews(10)
    rows[4]["label"] = "rare"
    path = write(tmp_path / "data.csv", rows)
    refused(path, "line 6: the only row of class 'rare'; .*give a file with data.validation")
    assert len(load(path, validation=str(write(tmp_path / "dev.csv", reviews(4)))).train) == 10


def test_a_label_column_without_classes(tmp_path):
    rows = [{"text": "x", "label": f"id-{i}"} for i in range(30)]
    refused(write(tmp_path / "data.csv", rows), r"class 'id-0' \(and 29 more classes of 30\)")


def test_fewer_training_rows_than_classes(tmp_path):
    refused(write(tmp_path / "data.csv", reviews()), "data.train_rows 1 is less than one row for each", train_rows=1)


def test_names_in_a_message_are_limited():
    assert quoted(range(14), limit=2) == "'0', '1' and 12 more"


@pytest.mark.parametrize(("name", "hint"), [("Lable", "; did you mean 'label'?"), ("xyz", "")])
def test_a_near_miss_is_offered(name, hint):
    assert nearest(name, ["text", "label"]) == hint
