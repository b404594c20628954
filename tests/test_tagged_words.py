"""A tag per word: from file to prediction, entity scores, alignment with tokens, and what is refused."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForTokenClassification, pipeline

from kinds_support import replace_line, write_conll, write_tagged
from training_support import TINY, result, train
from transevolve.cli import main
from transevolve.data import DataOptions, load_data
from transevolve.data.batching import IGNORED
from transevolve.data.conll import conll_sentences
from transevolve.data.options import TokenizerChoice
from transevolve.data.tags import encode_words
from transevolve.data.tokenizers import build_tokenizer
from transevolve.inference import load
from transevolve.kinds.tokens import split_words
from transevolve.metrics.tags import tag_scores

NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    data = write_conll(folder / "names.conll")
    assert train(f"--data.path={data}", f"--output={folder / 'run'}", *TINY, "--training.epochs=6") == 0
    return folder / "run"


def test_tags_are_learned_above_the_baseline(run):
    found = result(run)
    assert (found["task"], found["selected_by"]) == ("tokens", "f1")
    assert found["baseline"]["validation"]["f1"] == 0
    assert found["validation"]["f1"] > 0.9
    assert found["validation"].keys() == {"loss", "f1", "precision", "recall", "accuracy"}


def test_predict_tags_words_and_lists_of_words(run, capsys):
    assert main(["predict", str(run), "Anna Jones lives in Oslo."]) == 0
    assert capsys.readouterr().out == "Anna/B-PER Jones/I-PER lives/O in/O Oslo/B-LOC ./O\n"
    assert main(["predict", str(run), "--json", "bob smith"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"text": "bob smith", "tokens": ["bob", "smith"], "tags": ["B-PER", "I-PER"]}
    assert load(run).predict([["carl", "smith", "lives"], ""])[0].tags == ["B-PER", "I-PER", "O"]


def test_evaluate_scores_entities(run, tmp_path, capsys):
    other = write_tagged(tmp_path / "other.jsonl", rows=20, seed=4)
    assert main(["evaluate", str(run), "--file", str(other), "--output", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["f1"] > 0.9
    assert {score["label"]: score["rows"] for score in found["classes"]} == {"LOC": 20, "PER": 20}


def test_a_pipeline_finds_the_entities(run):
    assert AutoModelForTokenClassification.from_pretrained(run).config.num_labels == 4
    tag = pipeline("token-classification", model=str(run), aggregation_strategy="first")
    found = [(one["entity_group"], one["word"]) for one in tag("anna smith lives in paris .")]
    assert found == [("PER", "anna smith"), ("LOC", "paris")]


@pytest.mark.usefixtures("unchecked")
def test_it_is_exported_and_reported(run, tmp_path):
    assert main(["export", str(run), "--format", "hf", "--output", str(tmp_path / "hf")]) == 0
    assert "pipeline_tag: token-classification" in (tmp_path / "hf" / "README.md").read_text()
    assert main(["report", str(run), "--output", str(tmp_path / "report.html")]) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_it_is_exported_as_a_program(run, tmp_path):
    program = ["--format", "torch-export", "--output", str(tmp_path / "program"), "--rounds", "0"]
    assert main(["export", str(run), *program]) == 0


@pytest.mark.slow
def test_another_system_learns_from_jsonl(tmp_path):
    data = write_tagged(tmp_path / "names.jsonl", rows=60)
    flags = [f"--data.path={data}", f"--output={tmp_path / 'run'}", "--training.epochs=2"]
    assert train(*flags, *TINY, "--model.system=transformer") == 0
    assert result(tmp_path / "run")["validation"]["accuracy"] > 0.6


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram", "char", "byte"])
def test_the_first_token_of_a_word_is_tagged(kind):
    texts = ["Anna lives in U.S. towns .", "北 京 naïve 😀😀 x"]
    size = 300 if kind in ("bpe", "unigram") else None
    tokenizer, _ = build_tokenizer(TokenizerChoice(kind, 64, size), texts)
    encoded, places = encode_words(tokenizer, texts, 64, str)
    for text, ids, found in zip(texts, encoded.rows(), places, strict=True):
        pieces = [*found.tolist(), len(ids)]
        words = text.split(" ")
        for word, start, end in zip(words, pieces, pieces[1:], strict=False):
            written = tokenizer.decode(ids[start:end].tolist(), skip_special_tokens=True)
            assert written.replace(" ", "") in (word, word.lower(), "naive"), (kind, word)


def test_tags_are_aligned_with_their_tokens(tmp_path):
    data = load_data(DataOptions(path=str(write_conll(tmp_path / "a.conll", rows=10)), validation=0.2))
    assert data.labels == ["O", "B-LOC", "B-PER", "I-PER"]
    assert data.train is not None
    for row in data.train:
        tags = [data.labels[label] for label in row["labels"] if label != IGNORED]
        assert tags == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
        assert len(row["labels"]) == len(row["input_ids"])


def test_entities_count_only_whole():
    truth = [["B-PER", "I-PER", "O"], ["B-LOC", "O", "B-PER"]]
    found = [["B-PER", "O", "O"], ["B-LOC", "O", "B-PER"]]
    scores = tag_scores(truth, found, NAMES)
    assert scores.precision == scores.recall == pytest.approx(2 / 3)
    assert scores.accuracy == pytest.approx(5 / 6)
    assert tag_scores([["DET", "NOUN"]], [["DET", "DET"]], ["DET", "NOUN"]).f1 == pytest.approx(1 / 3)
    assert tag_scores([["O"]], [["O"]], NAMES).f1 == 0.0


def test_words_of_a_text():
    assert split_words('He said "Mr. X (U.S.)."') == ["He", "said", '"', "Mr", ".", "X", "(", "U.S.", ")", ".", '"']
    assert split_words("我在 北京。") == ["我", "在", "北", "京", "。"]
    assert split_words(" \t ") == []


def test_conll_fields_comments_and_documents(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("# text = Anna\nAnna\tNNP\tB-PER\n\n\n-DOCSTART- -X- O\n\n# O\nin IN O\n")
    assert list(conll_sentences(path)) == [(2, ["Anna"], ["B-PER"]), (7, ["#", "in"], ["O", "O"])]


@pytest.mark.parametrize(
    ("write", "name", "line", "message"),
    [
        (write_conll, "a.conll", "lives", "line 5: 'lives' is not a word and its tag"),
        (write_tagged, "a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', "line 5: 2 'tokens' and 1 'tags'"),
        (write_tagged, "a.jsonl", '{"tokens": "a b", "tags": ["O"]}', "line 5: 'tokens' contains a str, not a list"),
        (write_tagged, "a.jsonl", '{"tokens": ["a", ""], "tags": ["O", "O"]}', "line 5: item 2 of 'tokens' is empty"),
    ],
)
def test_bad_input_is_named(write, name, line, message, tmp_path, capsys):
    data = replace_line(write(tmp_path / name, rows=12), 5, line)
    assert train("--data.task=tokens", f"--data.path={data}", f"--output={tmp_path / 'run'}", *TINY) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_tag_at_evaluation_is_named(run, tmp_path, capsys):
    other = replace_line(write_conll(tmp_path / "o.conll", rows=3), 3, "anna _ B-PERS")
    assert main(["evaluate", str(run), "--file", str(other)]) == 2
    assert "line 3: the tag 'B-PERS' is not among those of the model" in capsys.readouterr().err
