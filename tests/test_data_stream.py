"""Texts to predict: one per line, in order, in constant memory."""

import gzip
import io
import tracemalloc

import pytest

from test_data_files import EVERY_FORMAT, reviews, write
from transevolve.core.errors import UserError
from transevolve.data import iter_texts

LINES = ["first", "", "third \u2028 line", "  spaced  ", "last"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("trailing", [False, True])
def test_a_stream_has_one_text_per_line(end, compress, trailing):
    content = (end.join(LINES) + (end if trailing else "")).encode()
    stream = io.BytesIO(gzip.compress(content) if compress else content)
    assert list(iter_texts(stream)) == list(enumerate(LINES, start=1))


@pytest.mark.parametrize("name", ["texts.txt", "texts.txt.gz", "texts", "test_2016.en", "test_2016.en.gz"])
def test_a_text_file_has_one_text_per_line(name, tmp_path):
    content = "\n".join(LINES).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(iter_texts(tmp_path / name)) == list(enumerate(LINES, start=1))


@EVERY_FORMAT
def test_a_table_gives_its_text_column(name, tmp_path):
    path = write(tmp_path / f"data.{name}", reviews(5, text="review"))
    first = 2 if name.startswith(("csv", "tsv")) else 1
    assert list(iter_texts(path)) == [(first + i, row["review"]) for i, row in enumerate(reviews(5, text="review"))]


def test_a_table_of_one_column_needs_no_name(tmp_path):
    path = write(tmp_path / "data.csv", [{"anything": "a"}, {"anything": "b"}])
    assert [text for _, text in iter_texts(path)] == ["a", "b"]


def test_the_column_can_be_named(tmp_path):
    path = write(tmp_path / "data.jsonl", [{"text": "no", "body": "yes"}])
    assert list(iter_texts(path, "body")) == [(1, "yes")]


def test_a_table_without_a_text_column(tmp_path):
    path = write(tmp_path / "data.csv", [{"a": "1", "b": "2"}])
    with pytest.raises(UserError, match="which column contains the texts"):
        list(iter_texts(path))


@pytest.mark.parametrize("name", ["texts.dat", "texts.txt.gz", "texts"])
def test_a_column_of_lines_is_refused(name, tmp_path):
    (tmp_path / name).write_text("a,b\nc,d\n")
    with pytest.raises(UserError, match=f"{name}: has no column 'b', it is read as one text per line"):
        list(iter_texts(tmp_path / name, "b"))


def test_undecodable_bytes_are_named_after_the_good_lines():
    texts = iter_texts(io.BytesIO(b"good\nbad \xff\n"))
    assert next(texts) == (1, "good")
    with pytest.raises(UserError, match="line 2: byte 0xff at position 5 is not UTF-8"):
        next(texts)


@pytest.mark.parametrize("name", ["big.txt", "big.csv", "big.jsonl.gz"])
def test_memory_stays_constant(name, tmp_path):
    if name == "big.txt":
        (tmp_path / name).write_text(("x" * 999 + "\n") * 20_000)
    else:
        write(tmp_path / name, [{"text": "x" * 1000}] * 20_000)
    tracemalloc.start()
    count = sum(1 for _ in iter_texts(tmp_path / name))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 8_000_000
