"""Exported translators: onnxruntime and numpy give the tokens of PyTorch's beam search."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

from test_explain import as_run
from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration
from transevolve.cli import main
from transevolve.decoding import BeamOptions, beam_search
from transevolve.export.translator_graphs import SourceGraph, StepGraph, prepare, step_sample
from transevolve.inference import load

pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs the export extra"),
]
LIKE = Path(__file__).parent / "version_one" / "translator"
TEXTS = ["one two", "", "three four five six seven", "[PAD] eight", "nine " * 300]
OPTIONS = [[], ["--beam", "1"], ["--beam", "3", "--n_best", "3", "--length_penalty", "0"]]


def new_run(folder: Path, **settings) -> Path:
    """A translator with random weights, some of them large, so that its translations differ."""
    config = TransEvolveConfig.from_pretrained(LIKE, **settings)
    config.rotation_checksum = None
    model = TransEvolveForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return as_run(folder, model, LIKE)


def exported(run: Path, *more: str, format: str = "onnx") -> Path:
    output = run.parent / f"{format}{len(more)}"
    words = ["export", str(run), "--format", format, "--output", str(output), "--rounds", "1", *more]
    assert main(words) == 0
    return output


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    return new_run(tmp_path_factory.mktemp("runs") / "run", block_depth=2, num_blocks=1)


@pytest.fixture(scope="module")
def onnx(run) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)
        return exported(run)


def test_commands_print_the_same(run, onnx, capsys):
    for more in OPTIONS:
        assert main(["translate", str(run), *TEXTS, *more]) == 0
        expected = capsys.readouterr()
        assert main(["translate", str(onnx), *TEXTS, "--runtime", "onnx", "--batch_tokens", "64", *more]) == 0
        assert capsys.readouterr() == expected


def test_ids_and_scores_are_those_of_the_beam_search(run, onnx):
    from transevolve.runtime.translator import OnnxTranslator

    model, translator = load(run, "cpu").model, OnnxTranslator(onnx, threads=1)
    draw = torch.Generator().manual_seed(1)
    for beams in (1, 4, 8):
        rows = [torch.randint(3, model.config.vocab_size, (n,), generator=draw).tolist() for n in (1, 3, 9, 9, 20)]
        search = translator.search(beam=beams, n_best=min(beams, 3), extra_length=12)
        found = translator.translate_ids(rows, search)
        for row, own in zip(rows, found, strict=True):
            options = BeamOptions(beams, extra_length=12, n_best=min(beams, 3))
            (expected,) = beam_search(model, torch.tensor([row]), options=options)
            assert [h.ids for h in own] == [h.ids for h in expected]
            assert [h.score for h in own] == pytest.approx([h.score for h in expected], abs=1e-4)


def test_neither_torch_nor_transformers_is_imported(onnx):
    program = (
        "import sys; from transevolve.cli import main;"
        f"code = main(['translate', {str(onnx)!r}, 'one two', '--runtime', 'onnx']);"
        "sys.exit(code or ' '.join(sorted({'torch', 'transformers'} & {*sys.modules})) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    example = Path(__file__).parent.parent / "examples" / "translate_onnx.py"
    assert len(example.read_text().splitlines()) <= 60
    greedy = subprocess.run([sys.executable, example, onnx, "one two"], capture_output=True, text=True, check=True)
    assert greedy.stdout == main_output(onnx, "one two", "--beam", "1")


def main_output(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "transevolve", "translate", str(folder), "--runtime", "onnx", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_wrong_folders_and_options(run, onnx, tmp_path, capsys):
    for words, reported in (
        ([str(run)], "is not an exported translator"),
        ([str(onnx), "--beam", "99"], "--beam must be 1 to 16"),
        ([str(onnx), "--beam", "2", "--n_best", "3"], "--n_best must be"),
        ([str(onnx), "--precision", "int8"], "transevolve export --precision int8"),
    ):
        assert main(["translate", *words, "one", "--runtime", "onnx"]) == 2
        assert reported in capsys.readouterr().err
    assert main(["export", str(run), "--format", "hf", "--precision", "int8", "--output", str(tmp_path / "a")]) == 2
    assert "--precision int8 is for --format onnx" in capsys.readouterr().err


@pytest.mark.parametrize(
    "settings",
    [{"num_blocks": 2}, {"evolution": "none"}, {"feedforward": "random"}, {"decoder_block_depth": 3, "block_depth": 1}],
    ids=str,
)
def test_the_step_is_the_models_step(settings, tmp_path):
    """The functions that are exported, in PyTorch: every variant decodes a token as the model does."""
    model = load(new_run(tmp_path / "run", **settings), "cpu").model
    graph = prepare(model)
    source, step = SourceGraph(graph).eval(), StepGraph(graph).eval()
    ids = torch.randint(3, 40, (2, 6))
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    tokens = torch.randint(3, 40, (2, 4))
    with torch.no_grad():
        encoded = list(source(ids, mask))
        past = step_sample(step, encoded, beams=1, length=0)[4]
        for position in range(4):
            visible = torch.ones(2, 1, position + 1, dtype=torch.bool)
            at = tokens[:, position : position + 1]
            scores, best, *past = step(at, torch.tensor([position]), visible, encoded, past)
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=tokens, use_cache=False).logits[:, -1]
    expected = logits.log_softmax(-1).gather(1, best[:, 0])
    torch.testing.assert_close(scores[:, 0], expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_int8_and_programs(run):
    int8 = exported(run, "--precision", "int8")
    record = json.loads((int8 / "export.json").read_text())
    assert (record["precision"], len(record["timings"])) == ("int8", 4)
    assert main(["translate", str(int8), "--runtime", "onnx", *TEXTS]) == 0
    assert (exported(run, format="torch-export") / "decoder.pt2").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"num_blocks": 2}, {"evolution": "none"}, {"feedforward": "random"}], ids=str)
def test_every_variant_exports(settings, tmp_path):
    exported(new_run(tmp_path / "run", **settings))
