"""ListOps: the generator against a plain evaluator, its distribution, and its cache."""

import numpy as np
import pytest

from transevolve.core.errors import UserError
from transevolve.data import DataOptions, load_data
from transevolve.data import expressions as expressions_module
from transevolve.data import listops as listops_task
from transevolve.data.expressions import generate

RANGES = [(0, 12), (3, 40), (100, 300), (500, 2000)]


def parse(tokens):
    """A nested list of digits and [name, argument, ...], by plain recursion."""
    token = tokens.pop()
    if not token.startswith("["):
        return int(token)
    arguments = []
    while tokens[-1] != "]":
        arguments.append(parse(tokens))
    tokens.pop()
    return [token[1:], *arguments]


def evaluate(tree) -> int:
    if isinstance(tree, int):
        return tree
    values = [evaluate(argument) for argument in tree[1:]]
    return {"MIN": min, "MAX": max, "MED": lambda v: int(np.median(v)), "SM": lambda v: sum(v) % 10}[tree[0]](values)


def shape(tree) -> tuple[int, int]:
    """Depth and largest number of arguments."""
    if isinstance(tree, int):
        return 1, 0
    below = [shape(argument) for argument in tree[1:]]
    return 1 + max(depth for depth, _ in below), max([len(tree) - 1] + [width for _, width in below])


def trees(expressions):
    for index in range(len(expressions)):
        tokens = expressions.text(index).split()[::-1]
        tree = parse(tokens)
        assert not tokens
        yield tree


def options(folder, **changes) -> DataOptions:
    small = {"min_length": 10, "max_length": 40, "train_rows": 60, "validation_rows": 20, "test_rows": 20}
    return DataOptions(task="listops", cache=str(folder), **(small | changes))


def rows(data, split):
    return [(tuple(row["input_ids"]), row["labels"]) for row in data.split(split)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_answers_agree_with_a_plain_evaluator(low, high):
    expressions = generate(300, low, high, seed=1)
    assert [evaluate(tree) for tree in trees(expressions)] == expressions.answers.tolist()


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_lengths_lie_strictly_between_the_bounds(low, high):
    lengths = np.diff(generate(300, low, high, seed=2).offsets)
    assert low < lengths.min()
    assert lengths.max() < high


def test_trees_stay_within_ten_levels_and_ten_arguments():
    shapes = [shape(tree) for tree in trees(generate(300, 500, 2000, seed=3))]
    assert max(depth for depth, _ in shapes) == 10
    assert max(width for _, width in shapes) == 10


def test_classes_have_the_known_shares():
    shares = np.bincount(generate(5000, 500, 2000, seed=4).answers) / 5000
    assert shares[0] == pytest.approx(0.17, abs=0.02)
    assert shares[9] == pytest.approx(0.17, abs=0.02)
    assert shares[1:9].max() < 0.11


def test_operators_and_digits_are_uniform():
    counts = np.bincount(generate(500, 500, 2000, seed=5).tokens, minlength=16)
    np.testing.assert_allclose(counts[1:11] / counts[1:11].mean(), 1, atol=0.03)
    np.testing.assert_allclose(counts[11:15] / counts[11:15].mean(), 1, atol=0.03)
    assert counts[15] == counts[11:15].sum()


def test_expressions_are_different():
    expressions = generate(390, 3, 5, seed=6)
    assert len({expressions.text(index) for index in range(390)}) == 390


def test_too_few_different_expressions_are_an_error(monkeypatch):
    monkeypatch.setattr(expressions_module, "PATIENCE", 20)
    with pytest.raises(UserError, match="only 400 distinct ListOps expressions longer than 3 and shorter than 5"):
        generate(401, 3, 5, seed=7)


def test_a_seed_gives_the_same_expressions_and_more_begin_alike():
    few, many, other = generate(50, 10, 40, 0), generate(90, 10, 40, 0), generate(50, 10, 40, 1)
    assert [few.text(i) for i in range(50)] == [many.text(i) for i in range(50)]
    assert few.text(0) != other.text(0)


def test_the_stream_is_frozen():
    expressions = generate(3, 3, 12, seed=0)
    assert [expressions.text(index) for index in range(3)] == ["[MAX 0 2 7 ]", "[MIN 1 8 4 3 ]", "[MAX 8 8 ]"]


def test_no_expression_is_in_two_splits(tmp_path):
    data = load_data(options(tmp_path))
    found = [ids for split in ("train", "validation", "test") for ids, _ in rows(data, split)]
    assert len(set(found)) == len(found) == 100


def test_validation_and_test_stay_when_train_grows(tmp_path):
    small, large = load_data(options(tmp_path)), load_data(options(tmp_path, train_rows=200))
    assert rows(small, "test") == rows(large, "test")
    assert rows(small, "validation") == rows(large, "validation")


@pytest.mark.parametrize("brackets", ["keep", "drop"])
def test_ids_are_what_the_tokenizer_gives_for_the_text(brackets, tmp_path):
    data = load_data(options(tmp_path, brackets=brackets))
    expressions = listops_task.cached_expressions(tmp_path, {"train": 60, "validation": 20, "test": 20}, 10, 40, 0)
    for split, part in expressions.items():
        texts = [part.text(index) for index in range(len(part))]
        assert data.split(split)["input_ids"][:] == data.tokenizer(texts)["input_ids"]
        assert data.split(split)["labels"][:] == part.answers.tolist()
    assert f"brackets: {brackets}" in data.report.tokenizer


def generated(cache):
    """What is in the cache, apart from locks."""
    return [path for path in cache.iterdir() if path.suffix != ".lock"]


def test_what_was_generated_is_read_back(tmp_path, monkeypatch):
    first = load_data(options(tmp_path))
    monkeypatch.setattr(listops_task, "generate", None)
    again = load_data(options(tmp_path))
    assert rows(first, "train") == rows(again, "train")
    assert len(generated(tmp_path)) == 1


@pytest.mark.parametrize("change", [{"seed": 1}, {"min_length": 11}, {"max_length": 41}, {"test_rows": 21}])
def test_every_setting_has_its_own_cache(change, tmp_path):
    load_data(options(tmp_path))
    load_data(options(tmp_path, **change))
    assert len(generated(tmp_path)) == 2


def test_a_failed_write_leaves_no_files(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(UserError, match=r"could not write .*no space left"):
        load_data(options(tmp_path))
    assert generated(tmp_path) == []


def test_a_damaged_cache_is_named(tmp_path):
    load_data(options(tmp_path))
    (file,) = generated(tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(UserError, match=f"{file.name}.*delete the file"):
        load_data(options(tmp_path))


def test_impossible_lengths_are_an_error(tmp_path):
    with pytest.raises(UserError, match="longer than 40 and shorter than 41"):
        load_data(options(tmp_path, min_length=40, max_length=41))


def test_a_single_split(tmp_path):
    saved = load_data(options(tmp_path))
    data = load_data(options(tmp_path), tokenizer=saved.tokenizer, labels=saved.labels, splits=["test"])
    assert data.train is data.validation is None
    assert rows(data, "test") == rows(saved, "test")


def test_the_tokenizer_of_another_task_is_refused(tmp_path):
    data = load_data(options(tmp_path))
    with pytest.raises(UserError, match="not those of the task 'listops'"):
        load_data(options(tmp_path, brackets="drop"), tokenizer=data.tokenizer)
