"""Sweeps: many trainings, one table; what fails is told in its row; what is done is not done again."""

import json

import pytest

from training_support import write_csv
from transevolve.cli import main

RECIPE = """
data: {{path: {csv}}}
model: {{hidden_size: 16, num_attention_heads: 2, intermediate_size: 32, block_depth: 2}}
training: {{epochs: 1, batch_size: 16, learning_rate: 0.01}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE.format(csv=write_csv(tmp_path / "reviews.csv")))
    return tmp_path


def test_one_table_over_rows_and_seeds(folder, capsys):
    (folder / "sweep.yaml").write_text(
        f"recipe: {folder / 'tiny.yaml'}\n"
        "rows:\n  - {model.variant: fullFF-1, seeds: [0, 1]}\n  - {model.num_attention_heads: 3}\n"
        "seeds: [0]\n"
    )
    out = folder / "out"
    assert main(["sweep", str(folder / "sweep.yaml"), "--output", str(out)]) == 0
    told = capsys.readouterr()
    assert "does not split" in told.out
    cases = json.loads((out / "sweep.json").read_text())["cases"]
    assert [len(case["results"]) for case in cases] == [2, 0]
    assert {r["seed"] for r in cases[0]["results"]} == {0, 1}
    assert "±" in (out / "sweep.md").read_text()
    before = {p: p.stat().st_mtime_ns for p in out.glob("runs/variant*/model.safetensors")}
    assert len(before) == 2
    assert main(["sweep", str(folder / "sweep.yaml"), "--output", str(out)]) == 0
    assert {p: p.stat().st_mtime_ns for p in before} == before


BAD = {
    "unknown key": ("recipe: demo\nrow: []", "did you mean 'rows'?"),
    "unknown setting": ("recipe: demo\nrows: [{model.varant: fullFF-1}]", "did you mean 'model.variant'?"),
    "no recipe": ("rows: []", "'recipe' must name"),
    "unknown recipe": ("recipe: demmo", "did you mean 'demo'?"),
    "seeds that are words": ("recipe: demo\nseeds: [one]", "whole numbers, got ['one']"),
    "a row's seeds that are no list": ("recipe: demo\nrows: [{seeds: 3}]", "whole numbers, got 3"),
    "a grid without a list": ("recipe: demo\ngrid: {training.seed: 3}", "needs a list"),
}


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD)
def test_bad_sweeps_are_told_in_one_line(tmp_path, capsys, content, told):
    (tmp_path / "sweep.yaml").write_text(content)
    assert main(["sweep", str(tmp_path / "sweep.yaml"), "--output", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
