"""Run folders written by version 0.1.0 still load, and predict and translate the same."""

import json
from pathlib import Path

import pytest

from transevolve.cli import main

SAVED = Path(__file__).parent / "version_one"


def _lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["classifier", "random-linear", "performer"])
def test_classifiers_predict_the_same(name, capsys):
    saved = _lines((SAVED / f"{name}.predictions.jsonl").read_text())
    assert main(["predict", str(SAVED / name), "--json", *(row["text"] for row in saved)]) == 0
    found = _lines(capsys.readouterr().out)
    assert [row["label"] for row in found] == [row["label"] for row in saved]
    for row, expected in zip(found, saved, strict=True):
        assert row["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)


def test_translators_translate_the_same(capsys):
    saved = _lines((SAVED / "translator.translations.jsonl").read_text())
    assert main(["translate", str(SAVED / "translator"), "--json", "--n_best", "2", *(r["source"] for r in saved)]) == 0
    found = _lines(capsys.readouterr().out)
    for row, expected in zip(found, saved, strict=True):
        assert [t["text"] for t in row["translations"]] == [t["text"] for t in expected["translations"]]
        scores = [[t["score"] for t in r["translations"]] for r in (row, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
