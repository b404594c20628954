"""Untrusted run folders: whatever is in the place of a file, no command hangs, follows a link or crashes."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from campaigns.attempts import Ended, attempt
from training_support import training_of, write_csv
from transevolve.runs.storage import write_manifest

pytestmark = pytest.mark.slow
STEPS = ["--training.save_steps=1", "--training.keep=9"]
FILES = ["recipe.yaml", "metrics.jsonl", "results.json", "manifest.json", "config.json", "tokenizer.json", "curves.png"]
FILES += ["model.safetensors", "model.safetensors.index.json", "checkpoints", ".transevolve.lock", ".transevolve.owner"]
FILES += [".lock", "explain.html", "validation.evaluation.json", "checkpoints/checkpoint-1", "checkpoints/.partial"]
COMMANDS = {
    "train": [],
    "evaluate": ["evaluate", "RUN", "--split", "validation"],
    "predict": ["predict", "RUN", "a superb film"],
    "explain": ["explain", "RUN", "a superb film"],
    "average": ["average", "RUN", "--last", "2", "--output", "MEAN"],
    "report": ["report", "RUN", "--output", "MEAN"],
}
PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "a link to a file": lambda path, precious: path.symlink_to(precious / "file"),
    "a link to a folder": lambda path, precious: path.symlink_to(precious),
    "a link to itself": lambda path, precious: path.symlink_to(path),
    "a pipe": lambda path, precious: os.mkfifo(path),
    "a folder": lambda path, precious: path.mkdir(),
    "deep JSON": lambda path, precious: path.write_text("[" * 100_000) and None,
    "a long number": lambda path, precious: path.write_text('{"sha256": ' + "9" * 4400 + "}") and None,
}


@pytest.fixture(scope="module")
def csv(tmp_path_factory) -> Path:
    return write_csv(tmp_path_factory.mktemp("data") / "reviews.csv", rows=60)


@pytest.fixture(scope="module")
def finished(csv, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("finished") / "run"
    assert attempt(["train", *training_of(csv, run, *STEPS)]).code == 0
    return run


def require_clean(ended: Ended) -> None:
    assert ended.code in (0, 2), ended.output
    assert "Traceback" not in ended.output
    assert "--debug shows where" not in ended.output


@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("name", FILES)
def test_every_command(csv, finished, tmp_path, name, planted):
    for number, (command, words) in enumerate(COMMANDS.items()):
        run, precious = tmp_path / f"run{number}", tmp_path / f"precious{number}"
        shutil.copytree(finished, run)
        precious.mkdir()
        (precious / "file").write_text("precious")
        if (run / name).is_dir():
            shutil.rmtree(run / name)
        else:
            (run / name).unlink(missing_ok=True)
        PLANTED[planted](run / name, precious)
        places = {"RUN": str(run), "MEAN": str(tmp_path / f"mean{number}")}
        arguments = [places.get(word, word) for word in words] or ["train", *training_of(csv, run, *STEPS)]
        require_clean(attempt(arguments))
        assert [path.name for path in precious.iterdir()] == ["file"], command
        assert (precious / "file").read_text() == "precious", command


HUGE = {"num_blocks": 10**6, "block_depth": 10**9, "hidden_size": 2**40, "vocab_size": 2**62, "num_labels": 10**9}
HUGE |= {"num_features": 2**40, "intermediate_size": 2**50, "max_position_embeddings": 2**62}


@pytest.mark.parametrize("setting", HUGE)
def test_a_configuration_that_is_too_large(csv, finished, tmp_path, setting):
    """With the right checksums, as an attacker would write them."""
    for number, words in enumerate(words for command, words in COMMANDS.items() if command != "train"):
        run = tmp_path / f"run{number}"
        shutil.copytree(finished, run)
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps({**config, setting: HUGE[setting]}))
        write_manifest(run, json.loads((run / "manifest.json").read_text())["sha256"])
        places = {"RUN": str(run), "MEAN": str(tmp_path / f"mean{number}")}
        require_clean(attempt([places.get(word, word) for word in words]))


TRANSLATOR = Path(__file__).parents[1] / "version_one"
SENTENCES = ["--source", str(TRANSLATOR / "a.en"), "--reference", str(TRANSLATOR / "a.de")]


@pytest.mark.parametrize(
    "planted", ["a link to a file", "a link to a folder", "a link to itself", "a pipe", "a folder"]
)
@pytest.mark.parametrize("name", ["a.en.translations.txt", ".a.en.translations.txt.part", "a.en.evaluation.json"])
def test_translations(tmp_path, name, planted):
    run, precious = tmp_path / "run", tmp_path / "precious"
    shutil.copytree(TRANSLATOR / "translator", run)
    precious.mkdir()
    (precious / "file").write_text("precious")
    PLANTED[planted](run / name, precious)
    require_clean(attempt(["evaluate", run, *SENTENCES]))
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "precious"
