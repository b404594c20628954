"""Our classes behave as Hugging Face's interfaces require."""

import copy
import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers import AutoModelForSequenceClassification as AutoClassifier

from transevolve import TransEvolveConfig, TransEvolveModel
from transevolve.models.build import build_peer, build_transevolve
from transevolve.models.heads import MODELS, PEER, TRANSEVOLVE
from transevolve.peers import SYSTEMS

TINY = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "dropout": 0.0}
HEADS = [model.name.removeprefix("TransEvolve") for model in MODELS if model.model_type == TRANSEVOLVE]
PEER_HEADS = [model.name.removeprefix("Peer") for model in MODELS if model.model_type == PEER]
every_head = pytest.mark.parametrize("head", HEADS)
every_variant = pytest.mark.parametrize("variant", ["fullFF-1", "randomFF-2"])


def tiny(head: str = "ForSequenceClassification", variant: str = "fullFF-1", **settings):
    torch.manual_seed(0)
    return build_transevolve(head, variant, **{**TINY, **settings}).eval()


def inputs(head: str = "", rows: int = 2, length: int = 7) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 50, (rows, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[-1, length - 2 :] = 0
    batch = {"input_ids": ids, "attention_mask": mask}
    return {**batch, "decoder_input_ids": ids[:, :5]} if head == "ForConditionalGeneration" else batch


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForConditionalGeneration"])
def test_weights_of_a_named_variant_are_loaded(head, tmp_path):
    """`variant="ema"` names a file of weights, and `TransEvolveConfig.variant` a model of the paper."""
    auto = AutoClassifier if head == "ForSequenceClassification" else AutoModelForSeq2SeqLM
    model = tiny(head)
    model.save_pretrained(tmp_path)
    averaged = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in averaged.parameters():
            parameter.mul_(0.5)
    averaged.save_pretrained(tmp_path, variant="ema")
    expected = {None: model, "ema": averaged}
    for variant, saved in expected.items():
        loaded = auto.from_pretrained(tmp_path, variant=variant)
        torch.testing.assert_close(loaded.state_dict(), saved.state_dict(), rtol=0, atol=0)
        assert "variant" not in loaded.config.to_dict()
        assert not hasattr(loaded.config, "variant")
    loaded.save_pretrained(tmp_path / "again")
    assert "variant" not in json.loads((tmp_path / "again/config.json").read_text())
    assert TransEvolveConfig.variant("fullFF-2").num_blocks == 2


def test_a_config_file_with_a_weights_variant_loads(tmp_path):
    TransEvolveConfig(**TINY).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "variant": "ema"}))
    assert "variant" not in AutoConfig.from_pretrained(tmp_path).to_dict()


@pytest.mark.parametrize("backend", ["once", "fused", "linear", "literal", "auto"])
@every_variant
def test_a_translator_returns_its_cache_and_continues(variant, backend):
    model, batch = tiny("ForConditionalGeneration", variant, attention=backend), inputs("ForConditionalGeneration")
    ids = batch.pop("decoder_input_ids")
    whole = model(**batch, decoder_input_ids=ids, use_cache=False)
    assert whole.past_key_values is None
    first = model(**batch, decoder_input_ids=ids[:, :3])
    rest = model(**batch, decoder_input_ids=ids[:, 3:], past_key_values=first.past_key_values)
    logits = torch.cat([first.logits, rest.logits], 1)
    torch.testing.assert_close(logits, whole.logits, rtol=1e-4, atol=1e-4)


def test_no_cache_is_made_where_none_can_be_used():
    model, batch = tiny("ForConditionalGeneration"), inputs("ForConditionalGeneration")
    assert model(**batch, labels=batch["decoder_input_ids"]).past_key_values is None
    assert model.train()(**batch).past_key_values is None
    model.eval().config.use_cache = False
    assert model(**batch).past_key_values is None


@pytest.mark.parametrize("head", [*HEADS, *(f"Peer{head}" for head in PEER_HEADS)])
def test_a_misspelt_argument_is_refused(head):
    head, peer = head.removeprefix("Peer"), head.startswith("Peer")
    model = build_peer(head, "transformer", **TINY) if peer else tiny(head)
    with pytest.raises(TypeError, match=r"forward\(\) has no argument 'atention_mask'; did you mean 'attention_mask'"):
        model(**inputs(head), atention_mask=torch.ones(2, 7))
    ids = inputs(head)["input_ids"]
    model(**inputs(head), token_type_ids=torch.zeros_like(ids), cache_position=None)


@pytest.mark.parametrize("system", SYSTEMS)
def test_auto_model_of_a_peer(system, tmp_path):
    settings = {"intermediate_size": 16, "max_position_embeddings": 16, "num_hidden_layers": 2, **{"dropout": 0.0}}
    shape = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2}
    classifier = build_peer("ForSequenceClassification", system, **shape, **settings).eval()
    classifier.save_pretrained(tmp_path)
    encoder = AutoModel.from_pretrained(tmp_path)
    ids = torch.randint(1, 50, (2, 16))
    expected = classifier(ids, output_hidden_states=True).hidden_states[-1]
    torch.testing.assert_close(encoder(ids).last_hidden_state, expected, rtol=0, atol=0)


@every_head
@every_variant
def test_auto_model_is_the_encoder_of_every_head(head, variant, tmp_path):
    model = tiny(head, variant)
    model.save_pretrained(tmp_path)
    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder) is TransEvolveModel
    assert type(model.base_model) is TransEvolveModel
    batch = inputs()
    expected = model.base_model(**batch).last_hidden_state
    torch.testing.assert_close(encoder(**batch).last_hidden_state, expected, rtol=0, atol=0)


def test_a_pretrained_encoder_under_another_head(tmp_path):
    masked = tiny("ForMaskedLM")
    masked.save_pretrained(tmp_path)
    classifier = AutoClassifier.from_pretrained(tmp_path, num_labels=3)
    torch.testing.assert_close(classifier.model.state_dict(), masked.model.state_dict())
    assert classifier(**inputs()).logits.shape == (2, 3)


@every_head
def test_a_configuration_is_not_written_to(head):
    config = TransEvolveConfig.variant("randomFF-1", **TINY)
    before = config.to_dict()
    model = type(tiny(head))(config)
    assert config.to_dict() == before
    assert model.config.rotation_checksum
    assert all(module.config is model.config for module in model.modules() if hasattr(module, "config"))
    config.rotation_seed = 5
    assert type(tiny(head))(config).config.rotation_checksum != model.config.rotation_checksum


def test_num_hidden_layers_sets_the_depth():
    assert TransEvolveConfig(num_hidden_layers=4).block_depth == 4
    config = TransEvolveConfig(num_blocks=2, num_hidden_layers=4)
    assert (config.num_blocks, config.block_depth, config.decoder_block_depth) == (2, 2, 2)
    config.num_hidden_layers = 8
    assert config.block_depth == 4


@pytest.mark.parametrize("head", ["ForConditionalGeneration", "ForMaskedLM", "ForCausalLM"])
@pytest.mark.parametrize("deviation", [0.01, None])
def test_an_untied_output_layer_is_initialized(head, deviation, tmp_path):
    model = tiny(head, tie_word_embeddings=False, initializer_range=deviation)
    expected = deviation or 32**-0.5
    assert model.lm_head.weight is not model.get_input_embeddings().weight
    assert model.lm_head.weight.std().item() == pytest.approx(expected, rel=0.1)
    if head != "ForConditionalGeneration":
        tiny("Model", tie_word_embeddings=False, initializer_range=deviation).save_pretrained(tmp_path)
        grown = type(model).from_pretrained(tmp_path)
        assert grown.lm_head.weight.std().item() == pytest.approx(expected, rel=0.1)


@every_head
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int32])
def test_masks_of_any_dtype(head, dtype):
    model, batch = tiny(head), inputs(head)
    expected = model(**batch)[0]
    batch["attention_mask"] = batch["attention_mask"].to(dtype)
    assert torch.equal(model(**batch)[0], expected)


@pytest.mark.parametrize(
    ("setting", "value"), [("num_blocks", 10**6), ("hidden_size", 2**40), ("num_labels", 10**9), ("vocab_size", 2**63)]
)
def test_a_hostile_config_file_is_refused_before_anything_is_built(setting, value, tmp_path):
    tiny().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, setting: value}))
    with pytest.raises(Exception, match=f"{setting} must be at most"):
        AutoClassifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("system", ["transevolve", "performer"])
def test_features_are_not_drawn_before_the_weights_fit(system, tmp_path, monkeypatch):
    """An untrusted config.json may request heads so wide that their features do not fit in memory."""
    head = "ForSequenceClassification"
    model = tiny(head, attention="linear") if system == "transevolve" else build_peer(head, system, **TINY)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "hidden_size": 2**10, "num_attention_heads": 1}))
    monkeypatch.setattr("numpy.linalg.qr", lambda matrix: pytest.fail("drawn"))
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        AutoClassifier.from_pretrained(tmp_path)


TOO_MUCH = {"hidden_size": 2**15, "intermediate_size": 2**17, "num_blocks": 2, "rotation_checksum": None}


@pytest.mark.parametrize("variant", ["fullFF-1", "randomFF-1"])
@pytest.mark.parametrize("weights", ["of another shape", "missing"])
def test_no_memory_is_taken_for_weights_that_a_checkpoint_lacks(variant, weights, tmp_path, monkeypatch):
    """The feed-forwards of these two blocks would take 400 GB."""
    tiny(variant=variant).save_pretrained(tmp_path)
    if weights == "missing":
        save_file({"head.classifier.bias": torch.zeros(2)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **TOO_MUCH}))
    monkeypatch.setattr(torch, "empty_like", lambda weight, **how: pytest.fail("memory was taken"))
    message = "ignore_mismatched_sizes" if weights == "of another shape" else "does not contain the weights of this"
    with pytest.raises((RuntimeError, ValueError), match=message):
        AutoClassifier.from_pretrained(tmp_path)


def test_label_smoothing_applies_to_classification():
    labels = torch.tensor([0, 1])
    plain, smooth = tiny(num_labels=3), tiny(num_labels=3, label_smoothing=0.1)
    logits = plain(**inputs()).logits
    target = torch.full((2, 3), 0.05).scatter(1, labels[:, None], 0.9)
    entropy = -(target[0] * target[0].log()).sum()
    expected = -(target * logits.log_softmax(-1)).sum(-1).mean() - entropy
    torch.testing.assert_close(smooth(**inputs(), labels=labels).loss, expected)
    with pytest.raises(ValueError, match=r"label_smoothing=0\.1 applies to single-label classification"):
        smooth(**inputs(), labels=torch.rand(2, 3))


def test_token_classification():
    model, batch = tiny("ForTokenClassification", num_labels=5), inputs()
    labels = torch.randint(0, 5, (2, 7)).masked_fill(batch["attention_mask"] == 0, -100)
    out = model(**batch, labels=labels)
    assert out.logits.shape == (2, 7, 5)
    torch.testing.assert_close(out.loss, torch.nn.functional.cross_entropy(out.logits.mT, labels))
    rows = [{**{k: v[i : i + 1] for k, v in batch.items()}, "labels": labels[i : i + 1]} for i in (0, 1)]
    halves = [model(**row, num_items_in_batch=12).loss for row in rows]
    torch.testing.assert_close(sum(halves), out.loss)


def test_masked_language_model():
    model, batch = tiny("ForMaskedLM"), inputs()
    labels = torch.full((2, 7), -100)
    labels[0, 2] = 11
    out = model(**batch, labels=labels)
    torch.testing.assert_close(out.loss, -out.logits[0, 2].log_softmax(-1)[11])
    assert AutoModelForMaskedLM.from_config(model.config).lm_head.bias.eq(0).all()
    peer = build_peer("ForMaskedLM", "transformer", **TINY).eval()
    assert peer(**batch, labels=labels).loss.isfinite()
    assert peer.lm_head.weight is peer.embedding.weight


@pytest.mark.parametrize("backend", ["once", "fused", "linear", "literal"])
@every_variant
def test_causal_language_model_sees_no_later_token(variant, backend):
    model, ids = tiny("ForCausalLM", variant, attention=backend), inputs()["input_ids"]
    whole = model(ids).logits
    torch.testing.assert_close(model(ids[:, :4]).logits, whole[:, :4], rtol=1e-4, atol=1e-4)
    loss = torch.nn.functional.cross_entropy(whole[:, :-1].mT, ids[:, 1:])
    torch.testing.assert_close(model(ids, labels=ids).loss, loss)
    torch.testing.assert_close(model(ids, logits_to_keep=2).logits, whole[:, -2:])


@pytest.mark.parametrize("labels", [None, "other"])
def test_labels_that_are_already_shifted_are_the_targets(labels):
    """A sequence that is divided among processes is shifted before it is divided."""
    model, ids = tiny("ForCausalLM"), inputs()["input_ids"]
    loss = torch.nn.functional.cross_entropy(model(ids).logits.mT, ids.flip(1))
    found = model(ids, labels=None if labels is None else ids, shift_labels=ids.flip(1))
    torch.testing.assert_close(found.loss, loss)
    assert found.past_key_values is None


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"do_sample": True, "top_k": 4}])
@pytest.mark.parametrize("backend", ["once", "fused", "linear", "literal"])
def test_causal_language_model_generates(how, backend, tmp_path):
    tiny("ForCausalLM", "fullFF-2", attention=backend).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = inputs()["input_ids"]
    torch.manual_seed(3)
    found = model.generate(ids, max_new_tokens=5, min_new_tokens=5, **how)
    torch.manual_seed(3)
    assert torch.equal(found, model.generate(ids, max_new_tokens=5, min_new_tokens=5, use_cache=False, **how))
    assert found.shape == (2, 12)
    if not how:
        prefix = ids
        for _ in range(5):
            logits = model(prefix).logits[:, -1]
            logits[:, 2] = -torch.inf
            prefix = torch.cat([prefix, logits.argmax(-1, keepdim=True)], 1)
        assert torch.equal(found, prefix)


@pytest.mark.parametrize("backend", ["once", "linear"])
def test_causal_language_model_continues_from_its_cache(backend):
    model, ids = tiny("ForCausalLM", "randomFF-2", attention=backend), inputs()["input_ids"]
    whole = model(ids, use_cache=False)
    first = model(ids[:, :3])
    rest = model(ids[:, 3:], past_key_values=first.past_key_values)
    logits = torch.cat([first.logits, rest.logits], 1)
    torch.testing.assert_close(logits, whole.logits, rtol=1e-4, atol=1e-4)
    first.past_key_values.reorder_cache(torch.tensor([1, 1]))
    last = model(ids[:1, :1].expand(2, 1), past_key_values=first.past_key_values).logits
    again = torch.cat([ids[1:], ids[:1, :1]], 1)
    torch.testing.assert_close(last[0], model(again, use_cache=False).logits[0, -1:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(last[0], last[1])


@pytest.mark.parametrize("head", ["ForCausalLM", "ForConditionalGeneration"])
@pytest.mark.parametrize("backend", ["once", "linear"])
def test_a_cache_is_filled_once_with_gradient_checkpointing(head, backend):
    gradients = []
    for recompute in (False, True):
        model, batch = tiny(head, attention=backend).train(), inputs(head)
        if recompute:
            model.gradient_checkpointing_enable()
        out = model(**batch, labels=batch.get("decoder_input_ids", batch["input_ids"]), use_cache=True)
        out.loss.backward()
        assert out.past_key_values.length == out.logits.shape[1]
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("assistant", ["another model", "the prompt"])
def test_assisted_decoding_of_a_language_model(assistant):
    model, ids = tiny("ForCausalLM"), inputs(rows=1)["input_ids"]
    helper = {"prompt_lookup_num_tokens": 2}
    if assistant == "another model":
        torch.manual_seed(1)
        helper = {"assistant_model": build_transevolve("ForCausalLM", "fullFF-2", **TINY).eval()}
    how = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    assert torch.equal(model.generate(ids, **how, **helper), model.generate(ids, **how))


def test_left_padding_does_not_change_the_output():
    model, ids = tiny("ForCausalLM"), inputs(rows=1)["input_ids"]
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1)
    mask = (padded != 0).long()
    alone = model.generate(ids, max_new_tokens=6, min_new_tokens=6)
    beside = model.generate(padded, attention_mask=mask, max_new_tokens=6, min_new_tokens=6)
    assert torch.equal(alone, beside[:, 3:])
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    shifted = model(padded, attention_mask=mask, position_ids=positions).logits[:, 3:]
    torch.testing.assert_close(shifted, model(ids).logits, rtol=1e-4, atol=1e-4)
