"""Initialization of a classifier: attention is not saturated, and every system starts as the same bag of vectors."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from transevolve import TransEvolveConfig, TransEvolveForSequenceClassification, TransEvolveModel
from transevolve.config.learning import small_range
from transevolve.core.errors import UserError
from transevolve.metrics.bag_of_words import bag_of_words
from transevolve.models.peer import PeerForSequenceClassification
from transevolve.models.peer_config import PeerConfig
from transevolve.models.pooling import masked_mean, weighted_mean
from transevolve.models.start import branch_outputs, set_pairs, start_as_bag, zero_branches
from transevolve.peers import SYSTEMS
from transevolve.training.parameter_groups import parameter_groups, parameter_kind

VOCAB, WIDTH, LABELS = 60, 32, 3
SHAPE = {"vocab_size": VOCAB, "hidden_size": WIDTH, "num_attention_heads": 4, "intermediate_size": 64}
BAG = {"pooling": "weighted", "drop_unseen": True, "position_scale": 0.0, "initializer_range": 0.02}
VARIANTS = ["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"]
BAGS = ["transevolve", *(name for name in SYSTEMS if name != "fnet")]


def classifier(system: str, **options):
    shape = {**SHAPE, "num_labels": LABELS, "max_position_embeddings": 64, **options}
    if system == "transevolve":
        return TransEvolveForSequenceClassification(TransEvolveConfig(num_blocks=2, block_depth=2, **shape)).eval()
    return PeerForSequenceClassification(PeerConfig(system=system, num_hidden_layers=2, **shape)).eval()


def start(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.RandomState(seed)
    vectors = random.standard_normal((VOCAB, WIDTH - LABELS)).astype(np.float32)
    return {
        "vectors": vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        "classes": random.standard_normal((VOCAB, LABELS)).astype(np.float32),
        "log_idf": random.rand(VOCAB).astype(np.float32),
        "seen": np.arange(VOCAB) < VOCAB - 10,
        "pairs": np.stack([np.arange(VOCAB), np.arange(VOCAB)[::-1]], 1),
    }


def entropy(attention: torch.Tensor) -> float:
    return float(-(attention * attention.clamp(min=1e-30).log()).sum(-1).mean())


def ids(rows: int = 3, n: int = 12, below: int = VOCAB - 10) -> torch.Tensor:
    return torch.randint(3, below, (rows, n), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("width", [32, 256, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_of_a_fresh_model_is_spread_out(variant, width):
    shape = {"hidden_size": width, "num_attention_heads": 8, "intermediate_size": width, "vocab_size": 200}
    config = TransEvolveConfig.variant(variant, **shape, initializer_range=small_range(width), attention="fused")
    model = TransEvolveModel(config).eval()
    nn.init.normal_(model.embedding.weight, std=width**-0.5)
    for length in (2, 16, 200):
        with torch.no_grad():
            attentions = model(torch.randint(0, 200, (1, length)), output_attentions=True).attentions
        assert len(attentions) == 6
        assert all(entropy(attention) >= 0.8 * math.log(length) for attention in attentions)


@pytest.mark.parametrize("system", BAGS)
def test_every_system_starts_as_the_same_bag_of_vectors(system):
    model, reference = classifier(system, **BAG), classifier("transformer", **BAG)
    start_as_bag(model, **start())
    start_as_bag(reference, **start())
    reference.head.load_state_dict(model.head.state_dict())
    tokens = ids()
    with torch.no_grad():
        shuffled = tokens[:, torch.randperm(tokens.shape[1])]
        torch.testing.assert_close(model(tokens).logits, reference(tokens).logits, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model(tokens).logits, model(shuffled).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_branches_that_start_at_zero_learn(variant):
    torch.manual_seed(0)
    config = TransEvolveConfig.variant(variant, **SHAPE, num_labels=LABELS, initializer_range=0.02)
    model = TransEvolveForSequenceClassification(config)
    zero_branches(model)
    model(ids(), labels=torch.tensor([0, 1, 2])).loss.backward()
    outputs = list(branch_outputs(model))
    assert len(outputs) == 12
    assert all(not weight.detach().any() and weight.grad is not None and weight.grad.any() for weight in outputs)


@pytest.mark.parametrize("system", ["transevolve", "transformer", "fnet", "linformer"])
def test_an_unseen_token_does_not_change_the_output(system):
    model = classifier(system, **BAG)
    start_as_bag(model, **start())
    tokens = ids()
    longer = torch.cat([tokens, torch.full((3, 2), VOCAB - 1)], 1)
    padded = torch.cat([tokens, torch.zeros(3, 2, dtype=torch.long)], 1)
    mask = (torch.arange(14) < 12).long().expand(3, -1)
    with torch.no_grad():
        torch.testing.assert_close(model(longer).logits, model(padded, attention_mask=mask).logits)
        assert model(torch.full((1, 4), VOCAB - 1)).logits.isfinite().all()


@pytest.mark.parametrize("bigrams", [0, 64])
@pytest.mark.parametrize("system", ["transevolve", "transformer"])
def test_an_initialized_model_is_unchanged_by_saving(system, bigrams, tmp_path):
    model = classifier(system, **BAG, bigrams=bigrams)
    start_as_bag(model, **start())
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    tokens = ids(below=VOCAB)
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, again(tokens).logits)


def with_pairs(system: str = "transevolve", slots: int = 1 << 16):
    """A model that knows the pairs (i, VOCAB - 1 - i), with random weights."""
    model = classifier(system, **BAG, bigrams=slots)
    start_as_bag(model, **start())
    nn.init.normal_(model.head.bigrams.weight, generator=torch.Generator().manual_seed(2))
    return model


@pytest.mark.parametrize("system", ["transevolve", "transformer"])
def test_only_known_pairs_of_tokens_add_their_weights(system):
    plain, model = classifier(system, **BAG), with_pairs(system)
    plain.load_state_dict(model.state_dict(), strict=False)
    tokens = torch.tensor([[20, 39, 7, 39, 20, 10, 49], [39, 7, 5, 8, 9, 3, 4]])
    bigrams = model.head.bigrams
    slots = bigrams.places(torch.tensor([20, 39, 10]), torch.tensor([39, 20, 49]))[0]
    with torch.no_grad():
        added = model(tokens).logits - plain(tokens).logits
        torch.testing.assert_close(added[0], 30 * bigrams.weight[slots].sum(0) / math.sqrt(7), atol=1e-4, rtol=1e-4)
    assert not added[1].any()


def test_pairs_start_without_effect_and_learn():
    model = classifier("transevolve", **BAG, bigrams=1 << 16)
    start_as_bag(model, **start())
    model(torch.tensor([[20, 39, 7]]), labels=torch.tensor([1])).loss.backward()
    weight = model.head.bigrams.weight
    assert not weight.detach().any()
    slot = model.head.bigrams.places(torch.tensor(20), torch.tensor(39))[0]
    assert weight.grad.any(1).nonzero().tolist() == [[int(slot)]]


def test_training_drops_pairs_like_embedded_tokens():
    bigrams = classifier("transevolve", **BAG, bigrams=64, embedding_dropout=0.5).head.bigrams
    set_pairs(bigrams, np.array([[20, 39]]))
    nn.init.ones_(bigrams.weight)
    tokens = torch.tensor([[20, 39]]).expand(400, 2)
    whole = 30 / math.sqrt(2)
    torch.testing.assert_close(bigrams.eval()(tokens, None), torch.full((400, LABELS), whole))
    dropped = bigrams.train()(tokens, None)[:, 0]
    assert 0.4 < (dropped == 0).float().mean() < 0.6
    assert dropped.max().item() == pytest.approx(2 * whole)


def test_a_slot_belongs_to_the_first_pair_that_has_its_hash():
    bigrams = with_pairs(slots=7).head.bigrams
    slots, numbers = bigrams.places(*torch.from_numpy(start()["pairs"]).T)
    for slot in range(7):
        assert bigrams.owner[slot] == numbers[(slots == slot).nonzero()[0, 0]]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_does_not_change_the_pairs_of_a_text(side):
    model = with_pairs()
    tokens = torch.tensor([[20, 39, 7, 39, 20]])
    zeros, ones = torch.zeros(1, 4, dtype=torch.long), torch.ones_like(tokens)
    order = [tokens, zeros] if side == "right" else [zeros, tokens]
    mask = [ones, zeros] if side == "right" else [zeros, ones]
    with torch.no_grad():
        padded = model.head.bigrams(torch.cat(order, 1), torch.cat(mask, 1) == 0)
        torch.testing.assert_close(padded, model.head.bigrams(tokens, None))
        assert padded.abs().min() > 0


def test_defaults_leave_the_function_and_the_parameters_as_they_are():
    model = classifier("transevolve")
    names = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    assert not [name for name in names if "token_weight" in name or "bigrams" in name or name.endswith("seen")]


def test_equal_weights_are_a_plain_mean():
    x = torch.randn(3, 5, 4)
    padding = torch.arange(5) >= torch.tensor([[5], [2], [0]])
    weights = torch.full((3, 5), -300.0)
    torch.testing.assert_close(weighted_mean(x, weights, padding), masked_mean(x, padding))
    torch.testing.assert_close(weighted_mean(x, weights, None), x.mean(1))


def test_weighted_pooling_needs_ids():
    model = classifier("transevolve", **BAG)
    with pytest.raises(ValueError, match="needs input_ids"):
        model(inputs_embeds=torch.randn(1, 4, WIDTH))


@pytest.mark.parametrize("system", ["transevolve", "transformer"])
def test_every_parameter_is_in_one_group_with_the_rate_of_its_kind(system):
    model = classifier(system, **BAG)
    rates = {"encoder": 0.05, "embedding": 0.1, "pooling": 0.5}
    groups = parameter_groups(model.named_parameters(), 0.01, rates)
    grouped = [parameter for group in groups for parameter in group["params"]]
    assert len(grouped) == len(set(map(id, grouped))) == len(list(model.parameters()))
    rate = {id(parameter): group["lr"] for group in groups for parameter in group["params"]}
    for name, parameter in model.named_parameters():
        assert rate[id(parameter)] == rates.get(parameter_kind(name), 1.0)
    assert all((group["weight_decay"] > 0) == (group["params"][0].ndim > 1) for group in groups)


def test_without_rates_there_are_the_two_groups_of_a_plain_optimizer():
    model = classifier("transevolve")
    groups = parameter_groups(model.named_parameters(), 0.1)
    parameters = list(model.parameters())
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert [id(p) for p in groups[0]["params"]] == [id(p) for p in parameters if p.ndim > 1]
    assert [id(p) for p in groups[1]["params"]] == [id(p) for p in parameters if p.ndim <= 1]


TEXTS = ["good fine day", "bad awful day", "fine good thing", "awful bad thing"] * 5
SIGNS = [1, 0, 1, 0] * 5


def test_the_yardstick_scores_both_models_on_every_split():
    found = bag_of_words(TEXTS, SIGNS, {"validation": (["good", "awful"], [1, 0]), "test": (["bad", "bad"], [0, 1])})
    assert found.logistic_regression == {"validation": 1.0, "test": 0.5}
    assert found.naive_bayes == {"validation": 1.0, "test": 0.5}
    assert found.best("test") == 0.5
    assert found.line("test").startswith("bag of words: logistic regression 50.0, naive Bayes 50.0, ")


def test_the_yardstick_draws_rows_when_there_is_too_much_text():
    found = bag_of_words(TEXTS, SIGNS, {"test": (["good"], [1])}, most_characters=150)
    assert found.rows < len(TEXTS)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [(["a b", "c d"], [1, 1], "two classes"), (["!", "?"], [0, 1], "no word")],
)
def test_the_yardstick_refuses_what_it_cannot_learn_from(texts, labels, message):
    with pytest.raises(UserError, match=message):
        bag_of_words(texts, labels, {})


@pytest.mark.parametrize("pooling", ["weighted", "mean"])
def test_a_started_model_predicts_nearly_what_naive_bayes_does(pooling):
    model = classifier("transevolve", **{**BAG, "pooling": pooling})
    begin = start()
    begin["classes"] *= 0.1
    start_as_bag(model, **begin, class_scale=0.1)
    tokens = ids(rows=200)
    with torch.no_grad():
        found = model(tokens).logits.argmax(1)
    bayes = torch.from_numpy(begin["classes"])[tokens].sum(1).argmax(1)
    assert (found == bayes).float().mean() > 0.95
