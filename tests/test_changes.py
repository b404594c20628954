"""Six changes on a copy of the package, as a new maintainer makes them: each touches few files, and all work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from docs_support import ROOT, blocks
from training_support import write_csv


class Change(NamedTuple):
    """`new` files with their content, and `edits` (file, text, replacement)."""

    new: dict[str, str]
    edits: list[tuple[str, str, str]]

    @property
    def lines(self) -> int:
        """Lines added to existing files."""
        return sum(after.count("\n") - before.count("\n") for _, before, after in self.edits)


def example(page: str, mark: str) -> str:
    content = next(b.content for b in blocks(ROOT / "docs" / page) if mark in b.content)
    return "\n".join(line for line in content.splitlines() if not line.startswith("BACKENDS[")) + "\n"


REGRESSION = (ROOT / "src" / "transevolve" / "kinds" / "regression.py").read_text()
MASKED = (ROOT / "src" / "transevolve" / "models" / "heads" / "masked.py").read_text()
CHANGES = {
    "backend": Change(
        {
            "evolution/backends/chunked.py": example("contributing.md", "class ChunkedBackend").replace(
                "from transevolve.evolution.backends import BACKENDS, Evolution, ExactBackend",
                "from .backend import Evolution\nfrom .exact import ExactBackend",
            )
        },
        [
            (
                "evolution/backends/__init__.py",
                "        AutoBackend(),\n",
                "        AutoBackend(),\n        __import__(f'{__name__}.chunked', fromlist=['']).ChunkedBackend(),\n",
            )
        ],
    ),
    "system": Change(
        {"peers/average.py": example("systems.md", "class AverageAttention")},
        [
            ("peers/__init__.py", "from . import (\n", "from . import (\n    average,\n"),
            ("peers/__init__.py", "        macaron.MACARON,\n", "        macaron.MACARON,\n        average.AVERAGE,\n"),
        ],
    ),
    "kind of task": Change(
        {"kinds/amount.py": REGRESSION.replace('"regression"', '"amount"').replace("class Regression", "class Amount")},
        [
            ("kinds/registry.py", "from .base import Kind\n", "from .amount import Amount\nfrom .base import Kind\n"),
            ("kinds/registry.py", "register(Regression())\n", "register(Regression())\nregister(Amount())\n"),
        ],
    ),
    "model setting": Change(
        {},
        [
            (
                "evolution/settings.py",
                '    dropout: float = setting(0.1, "Dropout inside the blocks.", SHARE)\n',
                '    dropout: float = setting(0.1, "Dropout inside the blocks.", SHARE)\n'
                '    activation: Literal["relu", "gelu"] = setting("relu", "Activation of the feed-forward.")\n',
            ),
            (
                "evolution/feedforward.py",
                "        self.linear_2 = GlorotLinear(settings.intermediate_size, settings.hidden_size)\n",
                "        self.linear_2 = GlorotLinear(settings.intermediate_size, settings.hidden_size)\n"
                "        self.activation = settings.activation\n",
            ),
        ],
    ),
    "head": Change(
        {"models/heads/denoising.py": MASKED.replace("TransEvolveForMaskedLM", "TransEvolveForPreTraining")},
        [
            (
                "models/heads/__init__.py",
                "MODELS = (\n",
                "MODELS = (\n"
                '    ModelClass("TransEvolveForPreTraining", "heads.denoising", "AutoModelForPreTraining"),\n',
            )
        ],
    ),
    "schedule and optimizer": Change(
        {},
        [
            ("training/optimizer.py", "SCHEDULES: dict", "import math as _math\n\nSCHEDULES: dict"),
            (
                "training/optimizer.py",
                '    "constant": lambda left: 1.0,\n',
                '    "constant": lambda left: 1.0,\n    "root": lambda left: _math.sqrt(left),\n',
            ),
            (
                "training/optimizer.py",
                '{"adamw": _adamw}',
                '{"adamw": _adamw, "sgd": lambda groups, options: torch.optim.SGD(groups, lr=1.0)}',
            ),
        ],
    ),
}
# New files, and existing files that change.
TARGETS = {
    "backend": (1, 1),
    "system": (1, 1),
    "kind of task": (1, 1),
    "model setting": (0, 2),
    "head": (1, 1),
    "schedule and optimizer": (0, 1),
}
SCRIPT = """
import sys, torch
import transevolve
from transformers import AutoModelForPreTraining, PreTrainedModel
from transevolve import EvolvedAttention, PeerConfig, PeerForSequenceClassification, TransEvolveConfig
from transevolve.cli import main

attention, x = EvolvedAttention(32, 4, depth=3, backend="chunked"), torch.randn(2, 9, 32)
chunked, literal = attention.begin(x), attention.begin(x, backend="literal")
torch.testing.assert_close(attention(chunked, x, 2), attention(literal, x, 2))

PeerForSequenceClassification(PeerConfig.of_size("average", vocab_size=50, num_labels=2))
config = TransEvolveConfig(vocab_size=50, hidden_size=32, num_attention_heads=4, activation="gelu")
model = AutoModelForPreTraining.from_config(config)
assert type(model).__name__ == "TransEvolveForPreTraining" and transevolve.TransEvolveForPreTraining
assert model.model.encoder.blocks[0].depths[0].feedforward.activation == "gelu"

tiny = ["--model.hidden_size=16", "--model.num_attention_heads=2", "--training.epochs=1"]
new = ["--training.schedule=root", "--training.optimizer=sgd", "--model.activation=gelu", "--model.attention=chunked"]
data = ["--data.task=amount", "--data.path=rows.csv", "--data.text=comment", "--data.label=stars", "--output=run"]
assert main(["train", *data, *tiny, *new]) == 0
assert main(["evaluate", "run", "--split", "validation"]) == 0
assert main(["predict", "run", "a superb film"]) == 0
assert main(["report", "run"]) == 0
assert main(["export", "run", "--format", "hf", "--output", "exported"]) == 0
"""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_touches_few_files(name):
    change = CHANGES[name]
    assert (len(change.new), len({file for file, _, _ in change.edits})) == TARGETS[name]
    assert change.lines <= 3


def test_the_changes_work_together(tmp_path):
    package = tmp_path / "src" / "transevolve"
    shutil.copytree(ROOT / "src" / "transevolve", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "recipes", package / "recipes")
    for change in CHANGES.values():
        for name, content in change.new.items():
            (package / name).write_text(content)
        for name, before, after in change.edits:
            content = (package / name).read_text()
            assert content.count(before) == 1, (name, before)
            (package / name).write_text(content.replace(before, after))
    rows = write_csv(tmp_path / "rows.csv", rows=60).read_text().replace("verdict", "stars")
    (tmp_path / "rows.csv").write_text(rows.replace(",yes", ",5").replace(",no", ",1"))
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (
        str(package)
        in subprocess.run(
            [sys.executable, "-c", "import transevolve; print(transevolve.__file__)"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


def test_lint_fails_when_a_layer_is_crossed(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    crossed = tmp_path / "src" / "transevolve" / "core" / "errors.py"
    crossed.write_text(crossed.read_text() + "\nfrom ..data.labels import canonical\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 1, found.stdout
    assert "transevolve.core is not allowed to import transevolve.data" in found.stdout
