"""What a change to the models costs: a setting two files, a head one file and one line; made in a copy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import transevolve

SETTING = """    activation: Literal["relu", "gelu"] = setting("relu", "Activation of the feed-forward.")
"""
HEAD = """
from torch import nn
from transformers.modeling_outputs import QuestionAnsweringModelOutput

from ..encoder import TransEvolveModel, TransEvolvePreTrainedModel


class TransEvolveForQuestionAnswering(TransEvolvePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = TransEvolveModel(self.config)
        self.head = nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        self.check_keywords(kwargs)
        ends = self.head(self.model(input_ids, attention_mask).last_hidden_state)
        return QuestionAnsweringModelOutput(start_logits=ends[..., 0], end_logits=ends[..., 1])
"""
LINE = """    ModelClass("TransEvolveForQuestionAnswering", "heads.answers", "AutoModelForQuestionAnswering"),
"""
SHAPE = "vocab_size=20, hidden_size=16, num_attention_heads=2, intermediate_size=32"


class Copy:
    """A copy of the package that remembers which files were edited."""

    def __init__(self, folder: Path):
        self.package = folder / "transevolve"
        shutil.copytree(Path(transevolve.__file__).parent, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.edited: set[str] = set()

    def replace(self, file: str, old: str, new: str) -> None:
        text = (self.package / file).read_text()
        assert text.count(old) == 1, f"{old!r} in {file}"
        (self.package / file).write_text(text.replace(old, new))
        self.edited.add(file)

    def run(self, script: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(self.package.parent)}
        command = [sys.executable, "-W", "error", "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def copied(tmp_path) -> Copy:
    return Copy(tmp_path)


def test_a_setting_is_two_files(copied, tmp_path):
    settings, user = "evolution/settings.py", "evolution/feedforward.py"
    field = "    dropout: float = setting("
    copied.replace(settings, field, SETTING + field)
    first = "        self.linear_1 = GlorotLinear("
    copied.replace(user, first, "        self.activation = getattr(torch.nn.functional, settings.activation)\n" + first)
    body = "        return _perceptron(self.linear_1, self.linear_2, x)\n\n\n@dataclass"
    copied.replace(user, body, "        return self.linear_2(self.activation(self.linear_1(x)))\n\n\n@dataclass")
    assert copied.edited == {settings, user}
    copied.run(f"""
import torch
from transformers import AutoModel
from transevolve import PeerConfig, TransEvolveConfig, TransEvolveModel
from transevolve.models.build import build_peer, build_transevolve
ids = torch.arange(8)[None]
outputs = {{}}
for activation in ("relu", "gelu"):
    torch.manual_seed(0)
    model = build_transevolve("Model", {SHAPE}, activation=activation).eval()
    outputs[activation] = model(ids).last_hidden_state
    torch.manual_seed(0)
    outputs["peer", activation] = build_peer("Model", "transformer", {SHAPE}, activation=activation).eval()(ids)[0]
assert not torch.equal(outputs["relu"], outputs["gelu"])
assert not torch.equal(outputs["peer", "relu"], outputs["peer", "gelu"])
model.save_pretrained({str(tmp_path / "saved")!r})
assert torch.equal(AutoModel.from_pretrained({str(tmp_path / "saved")!r})(ids).last_hidden_state, outputs["gelu"])
try:
    TransEvolveConfig(activation="swish")
except Exception as error:
    assert "activation" in str(error)
else:
    raise AssertionError
""")


def test_a_head_is_one_file_and_one_line(copied, tmp_path):
    registry = "models/heads/__init__.py"
    (copied.package / "models/heads/answers.py").write_text(HEAD)
    last = '    ModelClass("TransEvolveForMaskedLM"'
    copied.replace(registry, last, LINE + last)
    assert copied.edited == {registry}
    copied.run(f"""
import torch
from transformers import AutoModelForQuestionAnswering
from transevolve import TransEvolveForQuestionAnswering
from transevolve.models.build import build_transevolve
model = build_transevolve("ForQuestionAnswering", {SHAPE}).eval()
assert type(model) is TransEvolveForQuestionAnswering
model.save_pretrained({str(tmp_path / "saved")!r})
loaded = AutoModelForQuestionAnswering.from_pretrained({str(tmp_path / "saved")!r})
assert torch.equal(loaded(torch.arange(8)[None]).end_logits, model(torch.arange(8)[None]).end_logits)
""")
