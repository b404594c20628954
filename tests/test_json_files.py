"""Typed reading of JSON: the requested object, or a one-line error that names the file and the key."""

from dataclasses import dataclass, field

import pytest

from transevolve.core.errors import UserError
from transevolve.core.json_files import read_json, read_json_lines


@dataclass
class Inner:
    rows: int


@dataclass
class Thing:
    name: str
    share: float
    parts: dict[str, Inner] = field(default_factory=dict)


def test_a_dataclass_is_read(tmp_path):
    (tmp_path / "x.json").write_text('{"name": "a", "share": 1, "parts": {"train": {"rows": 3}}, "more": null}')
    assert read_json(tmp_path / "x.json", Thing) == Thing("a", 1.0, {"train": Inner(3)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"name": "a", "share": "1"}', "'share': input should be a valid number"),
        ('{"name": "a", "share": true}', "'share': input should be a valid number"),
        ('{"name": 1, "share": 1}', "'name': input should be a valid string"),
        ('{"share": 1}', "'name': field required"),
        (
            '{"name": "a", "share": 1, "parts": {"train": {"rows": 1.5}}}',
            "'parts.train.rows': input",
        ),
        ("[]", "input should be an object"),
        ("{", "it is not valid JSON"),
        ("", "it is not valid JSON"),
        ('{"name": "a", "name": "b", "share": 1}', "the key 'name' appears twice"),
        ('{"name": ' + "[" * 100_000, "nested too deeply"),
        ('{"name": "a", "share": ' + "9" * 301 + "}", "a number has 301 digits"),
        ('{"name": "\\ud800", "share": 1}', "invalid JSON"),
    ],
)
def test_anything_else_is_one_line(content, message, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UserError) as caught:
        read_json(tmp_path / "x.json", Thing)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'x.json'} is damaged: ")
    assert "\n" not in str(caught.value)


def test_deep_but_parsable_nesting_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"a": ' + "[" * 300 + "]" * 300 + "}")
    with pytest.raises(UserError, match="damaged"):
        read_json(tmp_path / "x.json", dict)


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "x.json").write_bytes(b'{"name": "\xff"}')
    with pytest.raises(UserError, match="not valid JSON"):
        read_json(tmp_path / "x.json", Thing)


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "x.json", Thing)


def test_damaged_lines_are_counted_and_the_rest_is_read(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": "x"}\n\xff\n{"step": 2}\n\n{"step": NaN}\n{"st')
    rows, damaged = read_json_lines(path, dict[str, float])
    assert [row["step"] for row in rows[:2]] == [1, 2]
    assert (len(rows), damaged) == (3, [2, 3])
    assert read_json_lines(tmp_path / "none.jsonl", dict[str, float]) == ([], [])
