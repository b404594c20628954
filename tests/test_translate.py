"""From two aligned files to translations, through the command line."""

import io
import json
import random
import shutil
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel

from training_support import PATIENCE, counted_checksums, metrics, process, result, train, weights
from transevolve.cli import main
from transevolve.runs.storage import checkpoints

EN = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
DE = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
SMALL = [
    "--data.vocab_size=300",
    "--model.hidden_size=32",
    "--model.num_attention_heads=2",
    "--model.intermediate_size=64",
    "--model.block_depth=2",
    "--model.dropout=0",
    "--training.batch_size=16",
    "--training.learning_rate=0.005",
    "--training.save_steps=10",
    "--training.keep=3",
]
LEARNS = "--training.epochs=10"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(0)
    numbers = [[draw.randrange(10) for _ in range(draw.randint(1, 4))] for _ in range(200)]
    for language, words in (("en", EN), ("de", DE)):
        lines = [" ".join(words[n] for n in row) for row in numbers]
        (folder / f"a.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def training_of(corpus: Path, run: Path, *more: str) -> list[str]:
    files = [f"--data.source={corpus / 'a.en'}", f"--data.target={corpus / 'a.de'}"]
    return [*files, f"--output={run}", "--training.epochs=2", *SMALL, *more]


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert train(*training_of(corpus, folder, LEARNS)) == 0
    return folder


@pytest.fixture(scope="module")
def marian(corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "marian"
    assert train(*training_of(corpus, folder, "--model.system=marian")) == 0
    return folder


def test_learns_and_selects_by_bleu(run):
    found = result(run)
    assert found["task"] == "translation"
    assert found["selected_by"] == "bleu"
    first, last = found["epochs"][0], found["epochs"][-1]
    assert last["loss"] < 0.6 * first["loss"]
    assert {"bleu", "chrf", "loss"} <= found["validation"].keys()


def test_marian_has_the_same_shape_as_the_other_systems(run, marian):
    ours, theirs = (AutoModelForSeq2SeqLM.from_pretrained(folder).config for folder in (run, marian))
    assert isinstance(AutoModelForSeq2SeqLM.from_pretrained(marian), MarianMTModel)
    assert theirs.d_model == ours.hidden_size
    assert theirs.encoder_layers == theirs.decoder_layers == ours.num_hidden_layers
    assert theirs.encoder_ffn_dim == ours.intermediate_size
    assert result(marian)["parameters"] > result(run)["parameters"]


def test_arguments_files_and_streams_give_the_same_translations(run, tmp_path, capsys, monkeypatch):
    sentences = ["one two", "", "three four five six", "ten"]
    assert main(["translate", str(run), *sentences]) == 0
    first = capsys.readouterr().out
    assert len(first.splitlines()) == 4
    assert first.splitlines()[1] == ""
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(sentences) + "\n")
    assert main(["translate", str(run), "--file", str(file), "--batch_tokens", "8"]) == 0
    assert capsys.readouterr().out == first
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(["translate", str(run)]) == 0
    assert capsys.readouterr().out == first


def test_n_best_with_scores(run, capsys):
    assert main(["translate", str(run), "--json", "--n_best", "3", "one two"]) == 0
    found = json.loads(capsys.readouterr().out)
    scores = [translation["score"] for translation in found["translations"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_evaluates_files_and_compares_runs(run, marian, corpus, tmp_path, capsys):
    files = ["--source", str(corpus / "a.en"), "--reference", str(corpus / "a.de")]
    out = ["--output", str(tmp_path), "--beam", "2", "--json"]
    assert main(["evaluate", str(run), *files, *out, "--against", str(marian)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "tok:13a" in found["signature_bleu"]
    assert found["bleu"] == pytest.approx(found["comparison"]["bleu"]["a"])
    assert 0 <= found["comparison"]["bleu"]["p_value"] <= 1
    assert len((tmp_path / "a.en.translations.txt").read_text().splitlines()) == found["lines"] == 200


def test_evaluates_validation_as_training_did(run, capsys, tmp_path):
    assert main(["evaluate", str(run), "--split", "validation", "--json", "--output", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["bleu"] == pytest.approx(result(run)["validation"]["bleu"])


def test_evaluates_the_training_split(run, corpus, capsys, tmp_path):
    """The training split has no texts, so references are decoded from its tokens."""
    from transevolve.inference import load

    score = load(run).evaluate("train").score
    texts = set((corpus / "a.de").read_text().splitlines())
    assert score.rows == 190
    assert set(score.references) <= texts


def test_translation_reads_the_models_checksum_once(run, monkeypatch):
    summed = counted_checksums(monkeypatch)
    assert main(["translate", str(run), "one"]) == 0
    assert summed.count("model.safetensors") == 1


@pytest.mark.parametrize("system", ["transevolve", pytest.param("marian", marks=pytest.mark.slow)])
def test_trains_in_16_bits_and_decodes_a_few_sentences(system, corpus, tmp_path, capsys):
    more = ["--training.precision=bf16", "--training.eval_sentences=3", "--model.embedding_dropout=0.1"]
    assert train(*training_of(corpus, tmp_path, f"--model.system={system}", *more)) == 0
    reported = capsys.readouterr().err
    assert "validation in training decodes 3 of 10 sentences" in reported
    assert ("model.embedding_dropout: not used by marian" in reported) == (system == "marian")
    found = result(tmp_path)
    (loss,) = [
        row["eval_loss"] for row in metrics(tmp_path) if row["step"] == found["best_step"] and "eval_loss" in row
    ]
    assert found["validation"]["loss"] == pytest.approx(loss, rel=1e-6), "the saved model is scored in 16 bits too"
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path), "--split", "validation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bleu"] == pytest.approx(result(tmp_path)["validation"]["bleu"])


def test_averages_weights_into_a_run(run, tmp_path, capsys):
    output = tmp_path / "mean"
    assert main(["average", str(run), "--last", "3", "--output", str(output)]) == 0
    parts = [
        AutoModelForSeq2SeqLM.from_pretrained(path).state_dict() for _, path in checkpoints(run / "checkpoints")[-3:]
    ]
    mean = AutoModelForSeq2SeqLM.from_pretrained(output).state_dict()
    name = "lm_head.weight"
    assert (mean[name] - sum(part[name] for part in parts) / 3).abs().max() < 1e-6
    assert AutoTokenizer.from_pretrained(output)
    assert main(["translate", str(output), "one two"]) == 0


def test_averages_scores(run, capsys):
    assert main(["average", str(run), "--last", "2", "--scores", "validation"]) == 0
    assert "mean" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_translation_ends_as_if_never_killed(corpus, run, tmp_path):
    again = tmp_path / "again"
    arguments = ["train", *training_of(corpus, again, LEARNS)]
    running = process(arguments)
    while len(checkpoints(again / "checkpoints")) < 2:
        assert running.poll() is None, running.communicate()
    running.kill()
    running.communicate()
    finished = process(arguments)
    _, reported = finished.communicate(timeout=PATIENCE)
    assert finished.returncode == 0, reported
    assert "resuming from" in reported
    assert weights(again) == weights(run)


BAD = {
    "fewer lines": (lambda c, t: [f"--data.source={c / 'a.en'}", f"--data.target={_first(c, t)}"], ("200", "3")),
    "missing file": (lambda c, t: [f"--data.source={t / 'no.en'}", f"--data.target={c / 'a.de'}"], ("no.en",)),
    "a classifier": (
        lambda c, t: [f"--data.source={c / 'a.en'}", f"--data.target={c / 'a.de'}", "--model.system=performer"],
        ("'performer' has no model 'ForConditionalGeneration'", "transevolve, marian"),
    ),
}


def _first(corpus: Path, folder: Path) -> Path:
    path = folder / "short.de"
    path.write_text("\n".join((corpus / "a.de").read_text().splitlines()[:3]) + "\n")
    return path


@pytest.mark.parametrize(("arguments", "reported"), BAD.values(), ids=BAD)
def test_bad_corpora_are_reported_in_one_line(corpus, tmp_path, capsys, arguments, reported):
    assert train(*arguments(corpus, tmp_path), f"--output={tmp_path / 'run'}", *SMALL) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("transevolve: error: ")
    assert all(words in error for words in reported)


def test_the_wrong_command_is_reported(run, capsys):
    assert main(["predict", str(run), "one"]) == 2
    assert "use `transevolve translate`" in capsys.readouterr().err


def test_too_few_checkpoints_are_reported(run, capsys):
    assert main(["average", str(run), "--last", "50"]) == 2
    assert "checkpoints, not 50" in capsys.readouterr().err
    assert not Path(f"{run}-average-50").exists()


def test_a_damaged_checkpoint_is_not_averaged(run, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    newest = checkpoints(copy / "checkpoints")[-1][1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-8])
    assert main(["average", str(copy), "--last", "2"]) == 2
    assert "damaged" in capsys.readouterr().err
