"""The defaults of a text classifier: valid models for any size of data, growing with it."""

import pytest

from transevolve import TransEvolveConfig
from transevolve.config.learning import learning_defaults


@pytest.mark.parametrize("classes", [2, 4, 100, 2000])
@pytest.mark.parametrize("length", [1, 40, 5000])
@pytest.mark.parametrize("rows", [1, 1000, 50_000, 10**7])
def test_defaults_make_a_valid_model(rows, length, classes):
    chosen = learning_defaults(rows, length, classes)
    names = ("hidden_size", "num_attention_heads", "intermediate_size", "num_blocks", "block_depth", "vocab_size")
    TransEvolveConfig(**{name: getattr(chosen, name) for name in names}, num_labels=classes)
    assert 64 <= chosen.max_length <= 512


def test_more_rows_never_make_a_smaller_model_or_more_epochs():
    sizes = [learning_defaults(rows, 40, 4) for rows in (100, 10_000, 100_000, 10**6)]
    assert [s.hidden_size for s in sizes] == sorted(s.hidden_size for s in sizes)
    assert [s.epochs for s in sizes] == sorted((s.epochs for s in sizes), reverse=True)
    assert not sizes[-1].refit
