"""Recipes that come with the package: each parses, and describes a model that can be built."""

import pytest
from transformers import PreTrainedTokenizerFast

from transevolve.cli import main
from transevolve.config.files import as_arguments, find_recipe, recipe_from, shipped, summary
from transevolve.data.tokenizers import build_tokenizer
from transevolve.kinds import resolve
from transevolve.kinds.systems import build_model
from transevolve.training.hf_arguments import check_training

PAPER = {"agnews", "imdb", "imdb-char", "listops", "wmt14-en-de", "wmt14-en-fr"}
CPU = {"agnews", "imdb", "imdb-char", "listops", "multi30k-en-de", "multi30k-en-fr", "europarl-en-de"}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer("bpe", ["one two three"], 64, vocab_size=300)[0]


def test_the_recipes_promised_are_there():
    assert {f"paper/{name}" for name in PAPER} | {f"cpu/{name}" for name in CPU} | {"demo"} <= set(shipped())


@pytest.mark.parametrize("name", shipped())
def test_parses_and_builds(name, tokenizer):
    recipe = recipe_from(as_arguments(find_recipe(name)))
    kind = resolve(recipe)
    check_training(recipe.training)
    length = recipe.data.max_length or 64
    recipe.model.hidden_size, recipe.model.num_attention_heads, recipe.model.intermediate_size = 16, 2, 32
    model = build_model(kind.head, recipe.model, tokenizer, length, ["a", "b"])
    assert model.num_parameters() > 0
    assert summary(find_recipe(name))


@pytest.mark.parametrize("name", [f"paper/{name}" for name in sorted(PAPER)])
def test_the_papers_settings(name):
    recipe = recipe_from(as_arguments(find_recipe(name)))
    training, translation = recipe.training, name.startswith("paper/wmt")
    assert training.schedule == "paper"
    assert (training.lr_max, training.warmup) == ((1.5, 16000) if translation else (0.5, 8000))
    assert recipe.model.size == ("base" if translation else "small")
    if translation:
        assert (training.max_steps, training.batch_size, recipe.data.max_length) == (300_000, 512, 256)
        assert (training.beams, training.extra_length) == (4, 50 if name.endswith("de") else 35)
        assert (training.keep, training.save_steps) == (10, 2000)
    else:
        assert training.epochs == 15


def test_lists_and_prints_recipes(capsys):
    assert main(["recipes"]) == 0
    assert "paper/imdb-char" in capsys.readouterr().out
    assert main(["recipes", "demo"]) == 0
    assert capsys.readouterr().out == find_recipe("demo").read_text()


def test_a_near_miss_is_suggested(capsys):
    assert main(["train", "paper/agnew"]) == 2
    assert "did you mean 'paper/agnews'?" in capsys.readouterr().err
