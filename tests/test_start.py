"""The start of a classifier: attention not saturated, a bag of vectors at first, the same for every system."""

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
from transevolve.models.start import branch_outputs, start_as_bag, zero_branches
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


@pytest.mark.parametrize("system", ["transevolve", "transformer"])
def test_an_initialized_model_is_unchanged_by_saving(system, tmp_path):
    model = classifier(system, **BAG)
    start_as_bag(model, **start())
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    tokens = ids(below=VOCAB)
    with torch.no_grad():
        assert torch.equal(model(tokens).logits, again(tokens).logits)


def test_defaults_leave_the_function_and_the_parameters_as_they_are():
    model = classifier("transevolve")
    names = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    assert not [name for name in names if "token_weight" in name or name.endswith("seen")]


def test_equal_weights_are_a_plain_mean():
    x = torch.randn(3, 5, 4)
    padding = torch.arange(5) >= torch.tensor([[5], [2], [0]])
    weights = torch.full((3, 5), -300.0)
    torch.testing.assert_close(weighted_mean(x, weights, padding), masked_mean(x, padding))
    torch.testing.assert_close(weighted_mean(x, weights, None), x.mean(1))


def test_weighted_pooling_wants_ids():
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
