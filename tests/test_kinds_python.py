"""Every kind of task from Python: `transevolve.train`, then `evaluate` and `predict`, also of the loaded run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import transevolve
from kinds_support import write_conll, write_pairs, write_separated, write_tagged, write_wide
from training_support import write_csv
from transevolve.kinds import KINDS

SMALL = {"epochs": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "block_depth": 2}


class Case(NamedTuple):
    kind: str
    file: str
    write: Callable[[Path], Any]
    settings: dict[str, Any]
    text: Any
    field: str


def write_numbers(path: Path) -> None:
    path.write_text("text,price\n" + "".join(f"a {'good' if n % 2 else 'bad'} thing,{n % 2 + 5}\n" for n in range(60)))


def write_lines(path: Path) -> None:
    path.write_text("".join(f"the cat {word} here and there\n" for word in ("sits", "runs", "eats")) * 20)


def write_parallel(path: Path) -> None:
    numbers = ("one", "eins"), ("two", "zwei"), ("three", "drei")
    for place, language in enumerate(("en", "de")):
        lines = [f"{first[place]} {second[place]}\n" for first in numbers for second in numbers]
        (path / f"a.{language}").write_text("".join(lines) * 8)


CASES = {
    "classes": Case("classification", "my.csv", write_csv, {}, "a lovely film", "label"),
    "numbers": Case("regression", "my.csv", write_numbers, {"task": "regression", "label": "price"}, "a", "value"),
    "labels of a column": Case(
        "multilabel", "my.csv", write_separated, {"label_separator": "|", "label": "topics"}, "a goal", "labels"
    ),
    "columns of labels": Case(
        "multilabel", "my.csv", write_wide, {"label": ["sport", "money", "art"]}, "a goal", "labels"
    ),
    "pairs": Case(
        "classification", "my.tsv", write_pairs, {"text": ["premise", "hypothesis"]}, ("cat", "dog"), "label"
    ),
    "pairs with numbers": Case(
        "regression",
        "my.tsv",
        lambda path: write_pairs(path, numbers=True),
        {"task": "regression", "text": ["premise", "hypothesis"], "label": "label"},
        ("cat", "dog"),
        "value",
    ),
    "conll": Case("tokens", "my.conll", write_conll, {}, ["anna", "lives"], "tags"),
    "tagged jsonl": Case("tokens", "my.jsonl", write_tagged, {}, "anna lives", "tags"),
    "masked": Case("masked", "my.txt", write_lines, {"task": "masked"}, "the [MASK] sits", "masks"),
    "causal": Case("causal", "my.txt", write_lines, {"task": "causal"}, "the cat", "texts"),
    "translation": Case("translation", "", write_parallel, {}, "one two", "translations"),
}


def test_every_kind_has_a_case():
    assert {case.kind for case in CASES.values()} == {*KINDS}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_kind_trains_evaluates_and_predicts(case: Case, tmp_path):
    file = tmp_path / case.file
    case.write(file)
    data = {"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.de")} if not case.file else str(file)
    run = transevolve.train(
        data, tmp_path / "run", device="cpu", **{"data.cache": str(tmp_path / "cache")}, **case.settings, **SMALL
    )
    assert run.kind.name == case.kind
    loaded = transevolve.load(tmp_path / "run")
    assert loaded.evaluate(split="validation").metrics == pytest.approx(run.results.validation, rel=1e-4, abs=1e-6)
    ask = "translate" if case.kind == "translation" else "predict"
    answer = getattr(loaded, ask)([case.text])[0].as_dict()
    assert case.field in answer
    assert getattr(run, ask)([case.text])[0].as_dict() == answer
