"""Slow results are computed once: the initial values of a classifier, and the tokens of texts without labels."""

import pytest

from transevolve.cli import main

TINY = (
    "--model.hidden_size=16",
    "--model.block_depth=1",
    "--training.batch_size=16",
    "--training.max_steps=2",
    "--training.yardstick=false",
)
WORDS = ("good fine great kind warm", "bad poor awful cold weak", "day night road house tree")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSEVOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("transevolve.data.kept.SECONDS_WORTH_KEEPING", 0.0)
    good, bad, plain = (words.split() for words in WORDS)
    rows = [f"{(good, bad)[i % 2][i % 5]} {plain[i // 3 % 5]} {plain[i % 4]} {i},{'yn'[i % 2]}" for i in range(60)]
    (tmp_path / "my.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (tmp_path / "more.txt").write_text("\n".join(f"{plain[i % 5]} {good[i % 4]} {i % 7}" for i in range(80)) + "\n")
    return tmp_path


def train(folder, name, *flags):
    data = ("--data.path", folder / "my.csv", "--data.unlabelled", folder / "more.txt")
    words = ["train", *data, "--output", folder / name, *TINY, *flags]
    assert main([str(word) for word in words]) == 0
    return (folder / name / "model.safetensors").read_bytes()


def kept(folder):
    return {path.name.partition("-")[0]: path for path in (folder / "cache").glob("*-*.*") if path.suffix != ".lock"}


def fail(*arguments, **options):
    raise AssertionError("computed again")


def test_a_second_run_starts_from_what_the_first_computed(files, monkeypatch):
    first = train(files, "first")
    assert set(kept(files)) == {"start", "unlabelled"}
    monkeypatch.setattr("transevolve.kinds.bag_start.bag_start", fail)
    assert train(files, "second") == first


def test_another_width_reads_the_same_tokens(files, monkeypatch):
    train(files, "first")
    monkeypatch.setattr("transevolve.data.unlabelled.encode", fail)
    train(files, "second", "--model.hidden_size=24")
    assert len(list((files / "cache").glob("start-*.npz"))) == 2


@pytest.mark.parametrize("change", ["texts", "labels", "rows"])
def test_other_texts_or_labels_are_computed_again(change, files):
    first = train(files, "first")
    if change == "texts":
        (files / "more.txt").write_text((files / "more.txt").read_text().replace("good", "road"))
    else:
        lines = (files / "my.csv").read_text().splitlines()
        lines = lines[:-8] if change == "rows" else [*lines[:-1], lines[-1][:-1] + "y"]
        (files / "my.csv").write_text("\n".join(lines) + "\n")
    assert train(files, "second") != first
    assert len(list((files / "cache").glob("start-*.npz"))) == 2


@pytest.mark.parametrize(("name", "damage"), [("start", "changed"), ("unlabelled", "cut")])
def test_a_damaged_file_is_made_again(name, damage, files, capsys):
    first = train(files, "first")
    for each in {"start", name}:
        path = kept(files)[each]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else content)
    capsys.readouterr()
    assert train(files, "second") == first
    assert f"{kept(files)[name]} is damaged" in capsys.readouterr().err


def test_they_are_listed_and_cleared(files, capsys):
    train(files, "first")
    capsys.readouterr()
    assert main(["cache"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "tokens of texts" in listed
    assert "initial word vectors" in listed
    assert main(["cache", "--clear"]) == 0
    assert not kept(files)


def test_only_what_the_program_made_is_cleared(tmp_path, capsys):
    """Other files in the folder are not removed."""
    mine = ["notes.txt", "start-of-all.npz", "listops.npz", "frames/photo.png", "prepared/draft.txt", "listops/a.txt"]
    made = ["start-0123abcd.npz", "listops-v1-50-100-1-2-3-seed0.npz", f"frames/{'a' * 16}.parquet"]
    made += [f"prepared/{'b' * 24}/entry.json"]
    for name in (*mine, *made):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "prepared" / ("c" * 24)).symlink_to(tmp_path / "listops")
    assert main(["cache", f"--folder={tmp_path}", "--clear"]) == 0
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()) == sorted(mine)
