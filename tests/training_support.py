"""A small labelled corpus, a small model, and the command line called as a user calls it."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from transevolve.cli import main

TINY = [
    "--model.hidden_size=16",
    "--model.num_attention_heads=2",
    "--model.intermediate_size=32",
    "--model.block_depth=2",
    "--training.batch_size=16",
    "--training.log_steps=2",
    "--training.learning_rate=0.01",
    "--training.precision=fp32",
]
PATIENCE = 1200  # seconds; a busy machine may take minutes to start a process
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
GOOD, BAD = ["great", "lovely", "superb", "fine", "wonderful"], ["awful", "poor", "terrible", "weak", "horrid"]
FILLER = ["the", "a", "film", "was", "and", "it", "of"]


def write_csv(path: Path, rows: int = 120, seed: int = 0, words: int = 12) -> Path:
    draw = random.Random(seed)
    lines = ["comment,verdict"]
    for number in range(rows):
        good = number % 2 == 0
        text = [draw.choice((GOOD if good else BAD) + FILLER) for _ in range(draw.randint(3, words))]
        text[0] = draw.choice(GOOD if good else BAD)
        lines.append(f"{' '.join(text)},{'yes' if good else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def train(*arguments: object) -> int:
    return main(["train", *map(str, arguments)])


def training_of(csv: Path, run: Path, *more: object) -> list[str]:
    return ["--data.path", str(csv), "--output", str(run), "--training.epochs=2", *TINY, *map(str, more)]


def process(arguments: list[str], **settings) -> subprocess.Popen:
    """The program in a separate process, on one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-m", "transevolve", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,
    )


def torchrun(*words: str) -> subprocess.CompletedProcess:
    """Runs two processes, started by torchrun, to their end."""
    return subprocess.run(
        [*TORCHRUN, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def metrics(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in metrics(run) if "loss" in row]


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def result(run: Path) -> dict:
    return json.loads((run / "results.json").read_text())


def counted_checksums(monkeypatch) -> list[str]:
    """The name of every file whose checksum is computed from here on."""
    from transevolve.runs import storage

    summed: list[str] = []
    original = storage.checksum

    def checksum(path: Path) -> str:
        summed.append(path.name)
        return original(path)

    monkeypatch.setattr(storage, "checksum", checksum)
    return summed
