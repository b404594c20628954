"""Trains fifty steps of every variant through the command line; `python tests/guard_losses.py` records their losses.

Recording anew is for changes that are meant to change the mathematics: the difference is to be explained with it.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

from training_support import losses, train

RECORD = Path(__file__).parent / "guards" / "losses.json"
STEPS = 50
SHAPE = [
    "--model.hidden_size=32",
    "--model.num_attention_heads=4",
    "--model.intermediate_size=64",
    "--model.dropout=0",
    f"--training.max_steps={STEPS}",
    "--training.batch_size=16",
    "--training.learning_rate=0.0003",
    "--training.log_steps=1",
    f"--training.save_steps={STEPS}",
    f"--training.eval_steps={STEPS}",
    "--training.precision=fp32",
    "--training.threads=1",
]
LISTOPS = [
    "--data.task=listops",
    "--data.min_length=8",
    "--data.max_length=32",
    "--data.train_rows=400",
    "--data.validation_rows=20",
    "--data.test_rows=20",
]
PAIRS = ["--data.vocab_size=300", "--data.tokenizer=bpe", "--training.eval_beams=1", "--training.beams=1"]
VARIANTS = ["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"]
CASES = {
    **{f"classify {name}": [*LISTOPS, f"--model.variant={name}"] for name in VARIANTS},
    **{f"translate {name}": [*PAIRS, f"--model.variant={name}"] for name in VARIANTS},
    "classify fullFF-1 linear": [*LISTOPS, "--model.attention=linear", "--model.num_features=16"],
    "classify fullFF-1 without evolution": [*LISTOPS, "--model.evolution=none"],
    "classify transformer": [*LISTOPS, "--model.system=transformer"],
}


def write_pairs(folder: Path, lines: int = 200) -> list[str]:
    """A language and its mirror image with other words."""
    draw = random.Random(0)
    one = ["red", "green", "blue", "small", "large", "old", "new", "house", "tree", "river"]
    other = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"]
    rows = [[draw.randrange(len(one)) for _ in range(draw.randint(2, 9))] for _ in range(lines)]
    (folder / "a.en").write_text("".join(" ".join(one[i] for i in row) + "\n" for row in rows))
    (folder / "a.de").write_text("".join(" ".join(other[i] for i in reversed(row)) + "\n" for row in rows))
    return ["--data.source", str(folder / "a.en"), "--data.target", str(folder / "a.de")]


def trained_losses(case: str, folder: Path) -> list[float]:
    files = write_pairs(folder) if case.startswith("translate") else []
    if train(*files, *CASES[case], *SHAPE, "--output", folder / "run") != 0:
        raise RuntimeError(f"{case}: the training failed")
    return losses(folder / "run")


def main() -> None:
    found = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found[case] = [round(loss, 6) for loss in trained_losses(case, Path(folder))]
        print(f"{case}: {found[case][0]:.4f} to {found[case][-1]:.4f}", file=sys.stderr)
    rows = ",\n".join(f" {json.dumps(case)}: {json.dumps(values)}" for case, values in found.items())
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
