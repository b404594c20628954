"""Pairs of texts: from file to prediction, segments, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import pipeline

from kinds_support import replace_line, write_pairs
from training_support import TINY, result, train
from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification
from transevolve.cli import main
from transevolve.data import DataOptions, load_data
from transevolve.data.pair_tokenizers import separator_id
from transevolve.inference import load
from transevolve.models.embedding import Segments


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    data = write_pairs(folder / "pairs.tsv")
    flags = [f"--data.path={data}", "--data.text", "premise", "hypothesis", f"--output={folder / 'run'}"]
    assert train(*flags, *TINY, "--training.epochs=15") == 0
    return folder / "run"


def test_pairs_are_learned_above_the_baseline(run):
    found = result(run)
    assert found["data"]["columns"]["text"] == ["premise", "hypothesis"]
    assert found["baseline"]["validation"]["accuracy"] == 0.5
    assert found["validation"]["accuracy"] > 0.8


def test_predict_takes_tabs_tables_and_python_pairs(run, tmp_path, capsys):
    assert main(["predict", str(run), "cat\tcat", "cat\tdog"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["same", "other"]
    table = write_pairs(tmp_path / "other.tsv", rows=12)
    for more in ([], ["--column", "premise", "hypothesis"]):
        assert main(["predict", str(run), "--file", str(table), *more]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 12
    assert [found.label for found in load(run).predict([("cat", "cat"), ("cat", "dog")])] == ["same", "other"]
    assert main(["evaluate", str(run), "--file", str(table), "--output", str(tmp_path)]) == 0


def test_embed_takes_tables_and_python_pairs(run, tmp_path):
    table, output = write_pairs(tmp_path / "other.tsv", rows=12), tmp_path / "vectors.npy"
    assert main(["embed", str(run), str(table), "--output", str(output)]) == 0
    vectors = np.load(output)
    assert len(vectors) == 12
    first = table.read_text().splitlines()[1].split("\t")[:2]
    np.testing.assert_allclose(load(run).embed([first])[0], vectors[0], atol=1e-5)


def test_a_pipeline_agrees(run):
    classify = pipeline("text-classification", model=str(run))
    for pair in (("cat", "cat"), ("cat", "sun")):
        ours = load(run).predict([pair])[0]
        theirs = classify({"text": pair[0], "text_pair": pair[1]})
        theirs = theirs[0] if isinstance(theirs, list) else theirs
        assert theirs["label"] == ours.label
        assert theirs["score"] == pytest.approx(ours.probability, abs=1e-5)


@pytest.mark.parametrize("tokenizer", ["byte", "char", "bpe", "unigram"])
def test_every_tokenizer_separates(tokenizer, tmp_path):
    size = 300 if tokenizer in ("bpe", "unigram") else None
    options = DataOptions(path=str(write_pairs(tmp_path / "p.tsv", 40)), tokenizer=tokenizer, vocab_size=size)
    data = load_data(options)
    separator = separator_id(data.tokenizer)
    assert data.train is not None
    assert all(separator in ids[1:-1] for ids in data.train["input_ids"][:])
    data.tokenizer.save_pretrained(tmp_path / "saved")
    from transformers import AutoTokenizer

    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert separator_id(again) == separator
    assert again("cat", "dog")["input_ids"] == data.tokenizer("cat", "dog")["input_ids"]
    assert again.init_kwargs["pairs"]


@pytest.mark.slow
def test_numbers_of_pairs_on_another_system(tmp_path):
    data = write_pairs(tmp_path / "p.tsv", numbers=True)
    flags = ["--data.task=regression", f"--data.path={data}", f"--output={tmp_path / 'run'}", "--training.epochs=1"]
    assert train(*flags, *TINY, "--model.system=transformer") == 0
    assert result(tmp_path / "run")["data"]["columns"]["text"] == ["premise", "hypothesis"]


def test_a_segment_ends_with_its_separator():
    segments = Segments(2, 4, separator=9)
    x = segments(torch.tensor([[1, 9, 5, 9, 0], [9, 9, 5, 5, 5]]))
    first, second = segments.weight
    for row, bounds in ((0, [0, 0, 1, 1, 1]), (1, [0, 1, 1, 1, 1])):
        torch.testing.assert_close(x[row], torch.stack([(first, second)[bound] for bound in bounds]))


def test_models_of_single_texts_have_no_segments():
    plain = {"vocab_size": 20, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    names = TransEvolveForSequenceClassification(TransEvolveConfig(**plain)).state_dict()
    assert not any("segments" in name for name in names)
    paired = TransEvolveForSequenceClassification(TransEvolveConfig(**plain, type_vocab_size=2, sep_token_id=3))
    assert paired.state_dict()["model.embedding.segments.weight"].shape == (2, 16)
    ids = torch.tensor([[1, 2, 3, 4, 3]])
    before = paired(ids).logits
    torch.nn.init.zeros_(paired.get_input_embeddings().segments.weight)
    assert not torch.equal(paired(ids).logits, before)
    with pytest.raises(ValueError, match="needs sep_token_id"):
        TransEvolveForSequenceClassification(TransEvolveConfig(**plain, type_vocab_size=2))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cat\t\tsame", "line 4: 'hypothesis' is empty; a pair needs both"),
        ("\tcat\tsame", "line 4: 'premise' is empty"),
    ],
)
def test_a_missing_side_is_named(line, message, tmp_path, capsys):
    data = replace_line(write_pairs(tmp_path / "p.tsv", 20), 4, line)
    assert train(f"--data.path={data}", f"--output={tmp_path / 'run'}", *TINY) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--data.text", "premise", "hypotheses"], "no column 'hypotheses' for the texts"),
        (["--data.text", "premise", "hypothesis", "label"], "names 3 columns"),
        (["--data.text", "premise", "premise"], "name the column 'premise' twice"),
        (["--data.long=window"], "data.long window is for single texts"),
    ],
)
def test_columns_that_are_not_a_pair_are_refused(flags, message, tmp_path, capsys):
    data = write_pairs(tmp_path / "p.tsv", 20)
    assert train(f"--data.path={data}", *flags, f"--output={tmp_path / 'run'}", *TINY) == 2
    assert message in capsys.readouterr().err


def test_a_text_without_its_pair_is_refused(run, capsys):
    assert main(["predict", str(run), "cat\tcat", "alone"]) == 2
    assert "arguments, line 2: not a pair of texts" in capsys.readouterr().err
