"""A split in several files: the same rows as one file, errors that name the part, and detection of changes."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from training_support import train, training_of, write_csv
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.data import DataOptions, load_data


def cut(path: Path, places: list[Path]) -> list[Path]:
    """The rows of a csv file, dealt out in order."""
    header, *lines = path.read_text().splitlines(keepends=True)
    share = -(-len(lines) // len(places))
    for number, place in enumerate(places):
        place.parent.mkdir(parents=True, exist_ok=True)
        content = header + "".join(lines[number * share : (number + 1) * share])
        place.write_bytes(gzip.compress(content.encode()) if place.suffix == ".gz" else content.encode())
    return places


def numbered(folder: Path) -> list[Path]:
    return [folder / "train-00000-of-00002.csv", folder / "train-00001-of-00002.csv.gz"]


def inside(folder: Path) -> list[Path]:
    return [folder / "train" / "a.csv", folder / "train" / "b.csv", folder / "train" / "c.csv"]


@pytest.mark.parametrize("places", [numbered, inside])
def test_parts_are_the_rows_of_one_file(places, tmp_path):
    path, folder = write_csv(tmp_path / "a.csv"), tmp_path / "folder"
    parts = cut(path, places(folder))
    whole, parted = load_data(DataOptions(path=str(path))), load_data(DataOptions(path=str(folder)))
    assert parted.train.to_dict() == whole.train.to_dict()
    assert list(parted.texts("train")) == list(whole.texts("train"))
    assert parted.report.splits["train"].origin == " and ".join(map(str, parts))


def test_a_folder_named_as_the_test_file(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    cut(write_csv(tmp_path / "b.csv", seed=1), [tmp_path / "parts" / "a.csv", tmp_path / "parts" / "b.csv"])
    options = DataOptions(path=str(path), test=str(tmp_path / "b.csv"))
    parted = load_data(replace(options, test=str(tmp_path / "parts")))
    assert parted.test.to_dict() == load_data(options).test.to_dict()


def test_a_file_is_preferred_to_a_folder(tmp_path):
    path = write_csv(tmp_path / "train.csv")
    cut(write_csv(tmp_path / "b.csv", seed=1), [tmp_path / "train" / "a.csv"])
    assert load_data(DataOptions(path=str(tmp_path))).report.splits["train"].origin == str(path)


def test_a_mistake_names_its_part(tmp_path):
    parts = cut(write_csv(tmp_path / "a.csv"), inside(tmp_path / "folder"))
    parts[1].write_text(parts[1].read_text() + "no label,\n")
    with pytest.raises(UserError, match=r"b\.csv, line 42: the label 'verdict' is empty"):
        load_data(DataOptions(path=str(tmp_path / "folder")))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("comment\nfine\n", r"c\.csv: there is no column 'verdict', which .*a\.csv has"),
        ("", r"c\.csv: the file is empty"),
    ],
)
def test_a_part_of_another_kind_is_refused(content, complaint, tmp_path):
    parts = cut(write_csv(tmp_path / "a.csv"), inside(tmp_path / "folder"))
    parts[2].write_text(content)
    with pytest.raises(UserError, match=complaint):
        load_data(DataOptions(path=str(tmp_path / "folder")))


def test_an_empty_folder_is_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    with pytest.raises(UserError, match=r"parts: there is no table in this folder"):
        load_data(DataOptions(path=str(write_csv(tmp_path / "a.csv")), test=str(tmp_path / "parts")))


def test_two_folders_of_sentences(tmp_path):
    for language, word in (("en", "dogs"), ("de", "Hunde")):
        lines = [f"{i} {word}\n" for i in range(40)]
        (tmp_path / f"train.{language}").write_text("".join(lines))
        (tmp_path / language).mkdir()
        for place, first in (("1.txt", 0), ("2.txt", 30)):
            (tmp_path / language / place).write_text("".join(lines[first : 30 if first == 0 else 40]))
    options = DataOptions(source=str(tmp_path / "train.en"), target=str(tmp_path / "train.de"), vocab_size=300)
    parted = load_data(replace(options, source=str(tmp_path / "en"), target=str(tmp_path / "de")))
    assert parted.train.to_dict() == load_data(options).train.to_dict()


@pytest.mark.parametrize("change", ["row", "lost", "added"])
def test_a_changed_part_is_noticed(change, tmp_path, capsys):
    parts = cut(write_csv(tmp_path / "a.csv"), inside(tmp_path / "folder"))
    command = training_of(tmp_path / "folder", tmp_path / "run", "--training.epochs=1")
    assert train(*command) == 0
    if change == "row":
        parts[1].write_text(parts[1].read_text().replace(",yes", ",no", 1))
    elif change == "lost":
        parts[1].unlink()
    else:
        (parts[1].parent / "b2.csv").write_text(parts[1].read_text())
    name = "b2.csv" if change == "added" else "b.csv"
    capsys.readouterr()
    assert train(*command) == 2
    assert f"data.path/train/{name} changed since then" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--split", "validation"]) == 2
    assert f"data.path/train/{name} changed since the training of" in capsys.readouterr().err
