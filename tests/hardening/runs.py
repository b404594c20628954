"""Minimal runs: a classifier of words, one of characters, and a translator."""

import random
from dataclasses import dataclass
from pathlib import Path

from training_support import train, write_csv
from transevolve.cli import main

TINY = [
    "--data.max_length=32",
    "--model.hidden_size=8",
    "--model.num_attention_heads=2",
    "--model.intermediate_size=16",
    "--model.block_depth=2",
    "--training.batch_size=16",
    "--training.learning_rate=0.01",
    "--training.epochs=1",
]
KEPT = ["--training.save_steps=1", "--training.keep=3"]
WORDS = {"en": ["one", "two", "three", "four"], "de": ["eins", "zwei", "drei", "vier"]}
LABELS = {"no", "yes"}


@dataclass(frozen=True)
class Runs:
    """Where they are, and what they were trained on."""

    words: Path
    characters: Path
    translator: Path
    table: Path
    sources: Path
    targets: Path


def trained(folder: Path) -> Runs:
    table = write_csv(folder / "reviews.csv", rows=40)
    sources, targets = write_pairs(folder, 40)
    found = Runs(folder / "words", folder / "characters", folder / "translator", table, sources, targets)
    labelled = ["--data.path", table, *TINY, *KEPT]
    assert train("--output", found.words, "--data.vocab_size=200", *labelled) == 0
    assert train("--output", found.characters, "--data.tokenizer=char", *labelled) == 0
    assert main(["evaluate", str(found.words), "--split", "validation"]) == 0
    pairs = ["--data.source", sources, "--data.target", targets, "--data.vocab_size=300", *TINY, *KEPT]
    pairs.append("--model.initialization=authors")  # small matrices translate into nothing after so few steps
    assert train("--output", found.translator, *pairs) == 0
    return found


def write_pairs(folder: Path, rows: int) -> tuple[Path, Path]:
    draw = random.Random(0)
    numbers = [[draw.randrange(4) for _ in range(draw.randint(1, 4))] for _ in range(rows)]
    for language, words in WORDS.items():
        lines = [" ".join(words[n] for n in row) for row in numbers]
        (folder / f"a.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "a.en", folder / "a.de"
