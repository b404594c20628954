"""Texts longer than the maximum length: truncation is reported, and windows read the whole text."""

import json

import numpy as np
import pytest

from kinds_support import write_long
from training_support import TINY, result, train
from transevolve.cli import main
from transevolve.data import DataOptions, load_data
from transevolve.data.long_texts import averaged, encode_windows
from transevolve.data.options import TokenizerChoice
from transevolve.data.tokenizers import build_tokenizer
from transevolve.inference import load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    flags = [f"--data.path={write_long(folder / 'long.csv')}", "--data.max_length=16", "--data.long=window"]
    assert train(*flags, f"--output={folder / 'run'}", *TINY, "--training.epochs=2") == 0
    return folder / "run"


def test_windows_read_what_a_cut_loses(run, capsys):
    found = result(run)
    assert found["validation"]["accuracy"] > 0.9
    assert found["data"]["splits"]["validation"]["rows"] == 8
    assert found["data"]["splits"]["validation"]["windows"] >= 8 * 4
    assert main(["evaluate", str(run), "--split", "validation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 8
    assert main(["predict", str(run), "the a of " * 20 + "good " * 8]) == 0
    assert capsys.readouterr().out.startswith("good")


def test_a_prediction_is_the_mean_over_windows(run):
    model = load(run)
    text = "the a of " * 20 + "good " * 8
    encoded, _ = encode_windows(model.tokenizer, [text], 16, str)
    windows = model.tokenizer.batch_decode(encoded.rows(), skip_special_tokens=True)
    logits = [np.log(list(found.probabilities.values())) for found in model.predict(windows)]
    mean = np.exp(np.mean([row - row[0] for row in logits], 0))
    whole = list(model.predict([text])[0].probabilities.values())
    assert whole == pytest.approx((mean / mean.sum()).tolist(), abs=1e-5)


def test_truncation_is_reported(tmp_path, capsys):
    data = write_long(tmp_path / "long.csv")
    flags = [f"--data.path={data}", "--data.max_length=16", f"--output={tmp_path / 'run'}", "--training.epochs=1"]
    assert train(*flags, *TINY) == 0
    printed = "".join(capsys.readouterr())
    assert "of the tokens of train are cut off, in 72 of 72 texts longer than 16 tokens" in printed
    assert "--data.long window" in printed
    facts = result(tmp_path / "run")["data"]["splits"]["train"]
    assert facts["cut_tokens"] > 2 * facts["tokens"]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "char", "byte"])
def test_windows_contain_every_token_once(kind):
    texts = ["the film was great " * 9, "short", ""] if kind != "bpe" else ["the film was great " * 9, "short"]
    tokenizer, _ = build_tokenizer(TokenizerChoice(kind, 12, 300 if kind == "bpe" else None), texts)
    special = set(tokenizer.all_special_ids)
    encoded, owners = encode_windows(tokenizer, texts, 12, str)
    assert max(encoded.lengths) <= 12
    for number, text in enumerate(texts):
        rows = [ids for ids, owner in zip(encoded.rows(), owners, strict=True) if owner == number]
        found = [int(i) for ids in rows for i in ids if i not in special]
        whole = [i for i in tokenizer(text, truncation=False)["input_ids"] if i not in special]
        assert found == whole


def test_averages():
    assert averaged(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1])).tolist() == [[2.0], [5.0]]


def test_a_document_of_ten_thousand_words(tmp_path):
    lines = [f"{' '.join(f'w{(n * 7 + m) % 50}' for m in range(10_000))},{n % 2}" for n in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    data = load_data(DataOptions(path=str(tmp_path / "a.csv"), long="window", max_length=512, validation=0.5))
    assert data.train is not None
    assert len(data.train) == 2 * 20
    assert set(data.train["row"][:]) == {0, 1}
