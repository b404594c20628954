"""Recipes: bundled recipes can be built; a file becomes a typed object, or a one-line error."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from transevolve.cli import main, parse
from transevolve.config.files import bundled, dotted, find_recipe, load_recipe, recipe_yaml
from transevolve.config.recipe import FROM_DATA, ModelOptions, Recipe
from transevolve.core.errors import UserError
from transevolve.core.yaml_files import dump_yaml, parse_yaml
from transevolve.data.options import TokenizerChoice
from transevolve.data.tokenizers import build_tokenizer
from transevolve.kinds import resolve
from transevolve.kinds.systems import build_model
from transevolve.models.settings import ModelSettings
from transevolve.training.hf_arguments import check_training

PAPER = {"agnews", "imdb", "imdb-char", "listops", "wmt14-en-de", "wmt14-en-fr"}
CPU = {"agnews", "imdb", "imdb-char", "listops", "multi30k-en-de", "multi30k-en-fr", "europarl-en-de"}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(TokenizerChoice("bpe", 64, 300), ["one two three"])[0]


def test_all_documented_recipes_exist():
    assert {f"paper/{name}" for name in PAPER} | {f"cpu/{name}" for name in CPU} | {"demo"} <= set(bundled())


@pytest.mark.parametrize("name", bundled())
def test_parses_and_builds(name, tokenizer):
    recipe = load_recipe(name)
    kind = resolve(recipe)
    check_training(recipe.training)
    length = recipe.data.max_length or 64
    recipe.model.hidden_size, recipe.model.num_attention_heads, recipe.model.intermediate_size = 16, 2, 32
    model = build_model(kind.head, recipe.model, tokenizer, length, ["a", "b"])
    assert model.num_parameters() > 0


@pytest.mark.parametrize("name", [f"paper/{name}" for name in sorted(PAPER)])
def test_the_papers_settings(name):
    recipe = load_recipe(name)
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


def test_every_setting_of_the_model_is_a_key_of_a_recipe():
    declared = {f.name: f.metadata for f in fields(ModelSettings) if f.name not in FROM_DATA}
    options = {f.name: f.metadata for f in fields(ModelOptions)}
    assert declared == {name: options[name] for name in declared}
    assert all(value is None for key, value in vars(ModelOptions()).items() if key in declared)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_flags_override_the_recipe_at_any_position(place, tmp_path):
    (tmp_path / "my.yaml").write_text("training: {epochs: 3, seed: 5}\ndata: {label: verdict}\n")
    words = ["--training.epochs", "7", "--data.path", "x.csv"]
    words.insert(place, str(tmp_path / "my.yaml"))
    recipe = parse(["train", *words])[1].load()
    assert (recipe.training.epochs, recipe.training.seed) == (7, 5)
    assert (recipe.data.path, recipe.data.label) == ("x.csv", "verdict")


def test_a_flag_that_repeats_a_default_still_overrides(tmp_path):
    (tmp_path / "my.yaml").write_text("training: {epochs: 3}\n")
    assert parse(["train", str(tmp_path / "my.yaml"), "--training.epochs=10"])[1].load().training.epochs == 10


READ = {
    "a column that looks like a number": ("data: {label: 1e3}", "data.label", "1e3"),
    "a column that looks like octal": ("data: {label: 007}", "data.label", "007"),
    "a column that looks like a truth value": ("data: {label: no}", "data.label", "no"),
    "a column that looks like a time": ("data: {label: 12:30}", "data.label", "12:30"),
    "a column named null": ("data: {label: 'null'}", "data.label", "null"),
    "a quoted comment": ("data: {label: '#label'}", "data.label", "#label"),
    "null": ("training: {max_steps: null}", "training.max_steps", None),
    "a whole number for a number": ("training: {epochs: 3}", "training.epochs", 3.0),
    "a number with an exponent": ("training: {learning_rate: 1e-3}", "training.learning_rate", 0.001),
    "a truth value": ("training: {compile: yes}", "training.compile", True),
    "a mapping": ("model: {settings: {features: 64, share: 0.5}}", "model.settings", {"features": 64, "share": 0.5}),
    "an empty section": ("data:\ntraining: {seed: 2}", "training.seed", 2),
    "dotted keys": ("training.seed: 2", "training.seed", 2),
}


@pytest.mark.parametrize(("content", "key", "value"), READ.values(), ids=READ)
def test_values_are_read_by_the_type_of_their_key(content, key, value, tmp_path):
    (tmp_path / "my.yaml").write_text(content)
    found = dotted(load_recipe(tmp_path / "my.yaml"))[key]
    assert found == value
    assert type(found) is type(value)


WRONG = {
    "unknown key": ("training:\n  epocs: 3", "line 2: unknown key 'training.epocs'; did you mean 'training.epochs'?"),
    "unknown section": ("trainning: {epochs: 3}", "unknown key 'trainning'; did you mean 'training'?"),
    "a value for a section": ("data: my.csv", "'data' must contain settings"),
    "a text for a number": ("training:\n  seed: 1\n  epochs: many", "line 3: training.epochs: 'many' is not a number"),
    "a fraction for a whole number": ("training: {seed: 1.5}", "training.seed: '1.5' is not an integer"),
    "a list for a text": ("data: {vocab: [a, b]}", "data.vocab: ['a', 'b'] is not a string"),
    "no number": ("training: {epochs: .nan}", "training.epochs: '.nan' is not a number"),
    "infinity": ("training: {epochs: 1e999}", "training.epochs: '1e999' is not a number"),
    "a huge number": (f"training: {{seed: {'9' * 5000}}}", "is not an integer"),
    "out of range": ("training: {beams: 0}", "line 1: training.beams: must be at least 1"),
    "a choice": ("model: {size: smal}", "model.size: 'smal' is not 'small' or 'base'; did you mean 'small'?"),
    "null where a value is needed": ("training: {seed: null}", "training.seed: None is not an integer"),
    "a key twice": ("data: {path: a}\ndata: {path: b}", "line 2: not valid YAML: duplicate key 'data'"),
    "an alias": ("data: &a {path: x}\nmodel: *a", "line 1: not valid YAML: a tag, anchor or alias"),
    "a tag": ("data: {path: !!python/name:os.abort ''}", "a tag, anchor or alias"),
    "two documents": ("--- {}\n--- {}", "more than one document"),
    "deep nesting": ("a: " + "[" * 100_000, "nested too deeply"),
    "a list": ("- data", "must contain settings"),
    "half a character": ('data: {path: "\\ud800"}', "is not a string"),
    "not closed": ("data: {path: 'x", "line 1: not valid YAML"),
    "too large": ("#" * 2**19, "too large"),
}


@pytest.mark.parametrize(("content", "complaint"), WRONG.values(), ids=WRONG)
def test_errors_in_a_recipe_are_one_line(content, complaint, tmp_path):
    (tmp_path / "my.yaml").write_text(content)
    with pytest.raises(UserError) as caught:
        load_recipe(tmp_path / "my.yaml")
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "my.yaml"))
    assert complaint in message
    assert "\n" not in message


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXTS.map(lambda text: text.replace("\0", ""))


@given(TEXTS)
def test_every_text_survives_the_round_trip(text):
    assert parse_yaml(dump_yaml({"key": text})) == {"key": text}


@given(
    NAMES,
    st.floats(1e-300, 1e6),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_a_recipe_survives_the_round_trip(text, number, whole, truth):
    recipe = Recipe(output=text)
    recipe.data.label, recipe.training.epochs, recipe.training.seed = text, number, whole
    recipe.training.compile, recipe.model.settings = truth, {"features": 128, "share": number}
    assert load_recipe(None, parse_yaml(recipe_yaml(recipe))) == recipe


def test_a_folder_does_not_hide_a_bundled_recipe(tmp_path, monkeypatch):
    """`make demo` writes the folder `demo`, and uses the recipe of that name when it is run again."""
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_recipe("demo").suffix == ".yaml"
