"""int8: `transevolve quantize` and `--precision int8`, compared with the float model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration
from transevolve.cli import main
from transevolve.core.errors import UserError
from transevolve.inference import load
from transevolve.models.int8 import Int8Embedding, Int8Linear, float_weights, int8_weights, quantize, restore
from transevolve.runs.storage import write_manifest

RUNS = Path(__file__).parent / "version_one"
TEXTS = ["a great film", "it was awful and weak", ""]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    made = {}
    for name in ("classifier", "performer", "random-linear", "translator"):
        made[name] = tmp_path_factory.mktemp("int8") / name
        assert main(["quantize", str(RUNS / name), "--output", str(made[name])]) == 0
    return made


@pytest.mark.parametrize("name", ["classifier", "performer", "random-linear"])
def test_an_int8_classifier_predicts_nearly_the_same(name, folders):
    expected, found, loaded = (
        [p.probabilities for p in run.predict(TEXTS)]
        for run in (load(RUNS / name), load(folders[name]), load(RUNS / name, precision="int8"))
    )
    assert found == loaded
    assert found != expected
    for one, other in zip(expected, found, strict=True):
        assert other == pytest.approx(one, abs=0.05)


def test_an_int8_translator_translates(folders, capsys):
    for run in (RUNS / "translator", folders["translator"]):
        assert main(["translate", str(run), "one two", "three", "--beam", "2"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
    model = load(folders["translator"]).model
    assert isinstance(model.lm_head, Int8Linear)
    assert isinstance(model.encoder.embedding, Int8Embedding)
    assert model.lm_head.weight.data_ptr() == model.encoder.embedding.weight.data_ptr()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_int8_exports_in_float(folders, tmp_path):
    run = ["export", str(folders["classifier"]), "--format", "torch-export", "--rounds", "0"]
    assert main([*run, "--output", str(tmp_path / "out")]) == 0


def test_int8_evaluates_nearly_as_float(folders, tmp_path, capsys):
    run = folders["classifier"]
    table = ["--file", str(RUNS / "reviews.csv"), "--json", "--output", str(tmp_path)]
    scores = []
    for more in ([], ["--precision", "float32"]):
        capsys.readouterr()
        assert main(["evaluate", str(run), *table, *more]) == 0
        scores.append(json.loads(capsys.readouterr().out)["accuracy"])
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_scores_and_sizes_are_recorded(tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(RUNS / "classifier", run)
    words = ["quantize", str(run), "--split", "validation", "--data", str(RUNS / "reviews.csv")]
    code = main(words)
    reported = capsys.readouterr()
    assert code == 0, reported.err
    assert "rows per second" in reported.out
    rows = json.loads((run / "int8" / "quantization.json").read_text())["models"]
    assert [row["precision"] for row in rows] == ["float32", "int8"]
    assert rows[1]["bytes"] < rows[0]["bytes"]
    assert rows[1]["metrics"]["accuracy"] == pytest.approx(rows[0]["metrics"]["accuracy"], abs=0.1)
    assert main(words) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["quantize", str(run / "int8"), "--output", str(tmp_path / "again")]) == 2
    assert "is already int8" in capsys.readouterr().err


# The operators of the drift stay in float32; with a random feed-forward they are a larger share.
@pytest.mark.parametrize(("feedforward", "share"), [("full", 0.35), ("random", 0.45)])
def test_weights_are_stored_in_a_byte_and_read_as_written(feedforward, share):
    shape = {"vocab_size": 400, "hidden_size": 256, "num_attention_heads": 4, "block_depth": 3}
    model = TransEvolveForConditionalGeneration(TransEvolveConfig(**shape, feedforward=feedforward)).eval()
    floats = sum(p.numel() * 4 for p in model.parameters())
    copy = TransEvolveForConditionalGeneration(model.config)
    copy.load_state_dict(model.state_dict())
    stored = int8_weights(model, quantize(copy))
    assert sum(t.numel() * t.itemsize for t in stored.values()) < share * floats
    ids = torch.randint(3, 400, (2, 9))
    again = TransEvolveForConditionalGeneration(model.config)
    again.load_state_dict(float_weights(stored), strict=False)
    restore(again, stored)
    batch = {"input_ids": ids, "decoder_input_ids": ids}
    with torch.no_grad():
        expected, first, second = (m(**batch).logits for m in (model, copy, again))
    assert torch.equal(first, second)
    assert (first - expected).abs().max() < 0.1 * expected.abs().max()


def test_transformers_cannot_load_an_int8_folder(folders):
    with pytest.raises(OSError, match="safetensors"):
        AutoModelForSequenceClassification.from_pretrained(folders["classifier"])


OTHERS = [{"evolution": "none"}, {"num_blocks": 2}, {"hidden_size": 2**15, "intermediate_size": 2**17}]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_folder_of_another_model_is_refused(folders, tmp_path, other):
    """Without building it: the last one would fill any memory."""
    folder = tmp_path / "run"
    shutil.copytree(folders["classifier"], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | other))
    write_manifest(folder)
    with pytest.raises(UserError, match="belongs to another model"):
        load(folder)


def test_a_planted_link_and_a_folder_without_a_name_are_refused(tmp_path, monkeypatch, capsys):
    shutil.copytree(RUNS / "classifier", tmp_path / "run")
    (tmp_path / "precious").mkdir()
    (tmp_path / "run" / "int8").symlink_to(tmp_path / "precious")
    monkeypatch.chdir(tmp_path)
    for more, reported in (
        ([], "run/int8 is a symbolic link"),
        (["--output=."], "no name"),
        (["--output=.."], "no name"),
    ):
        assert main(["quantize", "run", "--overwrite", *more]) == 2
        assert reported in capsys.readouterr().err
    assert not list((tmp_path / "precious").iterdir())


def test_int8_is_for_the_cpu(folders):
    with pytest.raises(UserError, match="int8 runs on the CPU"):
        load(folders["classifier"], "meta")
