"""The docstrings task: real sentences, split by module, that do not name their library."""

from collections import Counter

import pytest

from transevolve.cli import main
from transevolve.data import DataOptions, docstrings, load_data
from transevolve.data.docstrings import LIBRARIES, generate, sentences

SOURCE = '''"""Sorts a list of numbers in place. It names Example here, so it is out."""
TEXT = """Not a docstring, because it is assigned to a name."""


def first(
    x,
):
    r"""
    Returns the first of the given values, if any.

    Only the first paragraph is read by the generator of sentences.
    """
    return """Not a docstring, since it is returned from here."""
'''


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, str, str]]:
    return generate()


@pytest.fixture(scope="module")
def cache(tmp_path_factory, rows):
    """The sentences, generated once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docstrings, "generate", lambda: rows)
        docstrings.cached_sentences(folder)
    return folder


def test_plain_sentences_of_docstrings_are_found(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    found = [s for text in docstrings.docstrings(file) for s in sentences(text, ("example",))]
    assert found == ["Sorts a list of numbers in place.", "Returns the first of the given values, if any."]


def test_every_library_has_many_sentences_in_every_split(rows):
    counts = Counter((library, split) for _, library, split in rows)
    assert {library for library, _ in counts} == set(LIBRARIES)
    assert min(counts.values()) >= 40


def test_no_sentence_occurs_twice_or_names_its_library(rows):
    assert len({sentence for sentence, *_ in rows}) == len(rows)
    for sentence, library, _ in rows:
        assert not any(name in sentence.lower() for name in LIBRARIES[library])


def test_sentences_are_cached(cache, rows, monkeypatch):
    monkeypatch.delattr(docstrings, "generate")
    data = load_data(DataOptions(task="docstrings", cache=str(cache), vocab_size=500, train_rows=200))
    assert data.labels == sorted(LIBRARIES)
    assert data.report.splits["test"].rows == sum(split == "test" for *_, split in rows)


def test_a_run_trains_and_is_scored_again(cache, tmp_path, capsys):
    small = ["--model.hidden_size=16", "--model.num_attention_heads=2", "--model.block_depth=1", "--training.epochs=1"]
    rows = [f"--data.{split}_rows=64" for split in ("train", "validation", "test")]
    run = str(tmp_path / "run")
    command = ["train", "--data.task=docstrings", f"--data.cache={cache}", "--data.vocab_size=500", *rows, *small]
    assert main([*command, "--output", run]) == 0
    assert main(["evaluate", run]) == 0
    assert main(["evaluate", run, "--file", "x.csv"]) == 2
    assert "docstrings is generated" in capsys.readouterr().err
