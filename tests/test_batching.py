"""Batches: every row once, within the budget, independent of the number of processes."""

import numpy as np
import pytest
import torch
from accelerate.data_loader import skip_first_batches
from datasets import Dataset, concatenate_datasets
from hypothesis import given
from hypothesis import strategies as st

from transevolve.data.batching import Batches, BatchLoader, Collator, RowStore, rounded_lengths

LENGTHS = st.lists(st.integers(1, 700), min_size=1, max_size=120)
CUTS = st.one_of(st.integers(1, 20).map(lambda n: {"rows": n}), st.integers(1, 3000).map(lambda n: {"tokens": n}))


@given(LENGTHS, CUTS, st.integers(0, 5), st.booleans())
def test_every_row_once(lengths, cut, epoch, shuffle):
    batches = Batches(lengths, **cut, shuffle=shuffle)
    batches.set_epoch(epoch)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 3000))
def test_batches_stay_within_the_budget(lengths, tokens):
    for batch in Batches(lengths, tokens=tokens):
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens


@given(LENGTHS, CUTS)
def test_every_epoch_has_as_many_batches(lengths, cut):
    batches = Batches(lengths, **cut)
    for epoch in range(3):
        batches.set_epoch(epoch)
        assert len(list(batches)) == len(batches)


@given(LENGTHS, CUTS, st.integers(1, 3), st.integers(1, 3))
def test_processes_and_parts_share_the_same_batches(lengths, cut, processes, parts):
    whole = [sorted(batch) for batch in Batches(lengths, **cut, seed=3)]
    shares = [
        list(Batches(lengths, **cut, seed=3, processes=processes, process=process, parts=parts))
        for process in range(processes)
    ]
    assert {len(share) for share in shares} == {len(whole) * parts}
    for number, batch in enumerate(whole):
        dealt = [i for share in shares for part in share[number * parts : (number + 1) * parts] for i in part]
        assert sorted(i for i in dealt if i >= 0) == batch


def test_epochs_and_seeds_differ():
    lengths = np.random.default_rng(0).integers(1, 50, 200)
    orders = []
    for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0)):
        batches = Batches(lengths, rows=8, seed=seed)
        batches.set_epoch(epoch)
        orders.append(list(batches))
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]


@given(st.integers(1, 100_000))
def test_a_grain_is_at_most_an_eighth(length):
    rounded = int(rounded_lengths(np.array([length]))[0])
    assert length <= rounded <= max(length * 1.125, length + 1)


def rows() -> RowStore:
    return RowStore(Dataset.from_dict({"input_ids": [[5, 6], [7], [8, 9, 10]], "labels": [0, 1, 2]}))


def test_a_filler_does_not_contribute_to_the_loss():
    assert (rows()[~2]["input_ids"].tolist(), rows()[~2]["labels"]) == ([8, 9, 10], -100)
    pair = RowStore(Dataset.from_dict({"input_ids": [[5]], "labels": [[6, 2]]}))
    assert (pair[~0]["input_ids"].tolist(), pair[~0]["labels"]) == ([5], [-100, -100])


@pytest.mark.parametrize("chosen", [None, [3, 0, 3], range(1, 3)])
def test_rows_are_views_of_the_columns(chosen):
    content = {"input_ids": [[1, 2], [], [3], [4, 5, 6]], "labels": [0.5, 1.5, 2.5, 3.5], "length": [2, 0, 1, 3]}
    data = concatenate_datasets([Dataset.from_dict(content), Dataset.from_dict(content)])
    data = data if chosen is None else data.select(chosen)
    found = RowStore(data)
    assert len(found) == len(data)
    assert found.lengths.tolist() == data["length"][:]
    for number, row in enumerate(data):
        assert (found[number]["input_ids"].tolist(), found[number]["labels"]) == (row["input_ids"], row["labels"])
        assert not found[number]["input_ids"].flags.owndata


def test_collates_with_padding_on_the_right():
    batch = Collator(0)([rows()[i] for i in (0, 1, 2)])
    assert batch["input_ids"].tolist() == [[5, 6, 0], [7, 0, 0], [8, 9, 10]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert batch["labels"].tolist() == [0, 1, 2]


def test_moves_targets_right_for_a_decoder():
    found = Collator(0, start=1)([{"input_ids": [5], "labels": [6, 7, 2]}, {"input_ids": [5], "labels": [8, 2]}])
    assert found["labels"].tolist() == [[6, 7, 2], [8, 2, -100]]
    assert found["decoder_input_ids"].tolist() == [[1, 6, 7], [1, 8, 2]]


@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_a_resumed_epoch_resumes_where_it_left_off(skipped):
    data = RowStore(Dataset.from_dict({"input_ids": [[i] for i in range(40)], "labels": list(range(40))}))
    batches = Batches([1] * 40, rows=4, seed=2)
    batches.set_epoch(3)
    whole = [batch["labels"] for batch in BatchLoader(data, batches, Collator(0))]
    resumed = skip_first_batches(BatchLoader(data, batches, Collator(0)), skipped)
    assert all(torch.equal(a, b["labels"]) for a, b in zip(whole[skipped:], resumed, strict=True))
