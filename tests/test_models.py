"""Models through Hugging Face's interfaces: saving, loading, generation, checkpointing and invalid settings."""

import copy
import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from support import EXACT
from transevolve import (
    EvolvedEncoder,
    TransEvolveConfig,
    TransEvolveForConditionalGeneration,
    TransEvolveForSequenceClassification,
    TransEvolveModel,
)
from transevolve.evolution.backends import BACKENDS
from transevolve.evolution.block import EncoderDepth

VARIANTS = ["randomFF-1", "randomFF-2", "fullFF-1", "fullFF-2"]
TINY = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "dropout": 0.0}
HEADS = {
    "encoder": (TransEvolveModel, AutoModel),
    "classifier": (TransEvolveForSequenceClassification, AutoModelForSequenceClassification),
    "translator": (TransEvolveForConditionalGeneration, AutoModelForSeq2SeqLM),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_head = pytest.mark.parametrize("head", list(HEADS))
every_backend = pytest.mark.parametrize("backend", list(BACKENDS))


def tiny(variant: str = "fullFF-1", head: str = "classifier", **options):
    torch.manual_seed(0)
    config = TransEvolveConfig.variant(variant, **{**TINY, "num_labels": 3, **options})
    return HEADS[head][0](config).eval()


def inputs(head: str = "classifier", rows: int = 3, length: int = 8) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 50, (rows, length), generator=generator)
    mask = (torch.arange(length) < torch.tensor([[length], [length - 3], [1]])[:rows]).long()
    batch = {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}
    if head == "translator":
        batch["decoder_input_ids"] = torch.randint(3, 50, (rows, 6), generator=generator)
    return batch


def output(model, head: str) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs(head))[0]


@pytest.mark.parametrize(
    ("variant", "millions", "dead"),
    [("randomFF-1", 27.5, 1.57), ("randomFF-2", 33.8, 3.15), ("fullFF-1", 52.6, 1.57), ("fullFF-2", 58.9, 3.15)],
)
def test_parameter_counts_of_the_paper(variant, millions, dead):
    counts = []
    for rows in (True, False):
        config = TransEvolveConfig.variant(variant, size="base", vocab_size=32000, row_operators=rows)
        with torch.device("meta"):
            model = TransEvolveForConditionalGeneration(config)
        counts.append(sum(p.numel() for p in model.parameters()))
    assert counts[0] == pytest.approx(millions * 1e6, rel=0.005)
    assert counts[0] - counts[1] == pytest.approx(dead * 1e6, rel=0.005)


@every_head
@every_variant
def test_a_padded_batch_is_its_sentences(variant, head):
    model = tiny(variant, head)
    batch = inputs(head)
    whole = model(**batch)
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        alone = {
            k: v[row : row + 1, : length if k in ("input_ids", "attention_mask") else None] for k, v in batch.items()
        }
        single = model(**alone)
        if head == "encoder":
            torch.testing.assert_close(single[0], whole[0][row : row + 1, :length], rtol=1e-5, atol=1e-5)
        else:
            torch.testing.assert_close(single.logits, whole.logits[row : row + 1], rtol=1e-5, atol=1e-5)


def test_reload_in_a_fresh_process(tmp_path):
    """Every variant and head, saved, and loaded by the Auto classes in another process: bitwise the same numbers."""
    expected = {}
    for head in HEADS:
        for variant in VARIANTS:
            folder = tmp_path / f"{head}-{variant}"
            model = tiny(variant, head)
            model.save_pretrained(folder)
            expected[folder.name] = output(model, head)
    small = TransEvolveForSequenceClassification(TransEvolveConfig.variant("randomFF-1", vocab_size=50)).eval()
    small.save_pretrained(tmp_path / "classifier-small")
    expected["classifier-small"] = output(small, "classifier")
    script = f"""
import sys, torch
sys.path.insert(0, {str(tmp_path.parent)!r})
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = True
import transevolve, transformers
from safetensors.torch import save_file
inputs = torch.load({str(tmp_path / "inputs.pt")!r})
autos = {{"encoder": "", "classifier": "ForSequenceClassification", "translator": "ForSeq2SeqLM"}}
found = {{}}
for name in {list(expected)!r}:
    head = name.split("-")[0]
    model = getattr(transformers, "AutoModel" + autos[head]).from_pretrained({str(tmp_path)!r} + "/" + name)
    assert not model.training
    with torch.no_grad():
        found[name] = model(**inputs[head])[0].contiguous()
save_file(found, {str(tmp_path / "found.safetensors")!r})
"""
    torch.save({head: inputs(head) for head in HEADS}, tmp_path / "inputs.pt")
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = load_file(tmp_path / "found.safetensors")
    for name, logits in expected.items():
        assert torch.equal(found[name], logits), name


def test_a_small_random_checkpoint_is_small(tmp_path):
    config = TransEvolveConfig.variant("randomFF-1", size="small", vocab_size=30522, num_labels=2)
    model = TransEvolveForSequenceClassification(config)
    state = model.state_dict()
    state.pop("model.embedding.weight")
    save_file(state, tmp_path / "rest.safetensors")
    assert (tmp_path / "rest.safetensors").stat().st_size < 5_000_000


@every_head
@every_variant
def test_state_dict_copy_and_dtype(variant, head):
    model = tiny(variant, head)
    expected = output(model, head)
    torch.manual_seed(99)
    other = HEADS[head][0](copy.deepcopy(model.config)).eval()
    assert not torch.equal(output(other, head), expected)
    other.load_state_dict(model.state_dict())
    assert torch.equal(output(other, head), expected)
    assert torch.equal(output(copy.deepcopy(model), head), expected)
    wide = output(copy.deepcopy(model).double(), head)
    assert wide.dtype == torch.float64
    torch.testing.assert_close(wide.float(), expected, rtol=1e-4, atol=1e-4)
    low = output(copy.deepcopy(model).bfloat16(), head)
    assert low.dtype == torch.bfloat16
    assert torch.isfinite(low).all()


@every_variant
def test_seeds_decide_everything(variant):
    torch.testing.assert_close(output(tiny(variant), "classifier"), output(tiny(variant), "classifier"), rtol=0, atol=0)
    if variant.startswith("random"):
        assert not torch.equal(
            output(tiny(variant, rotation_seed=1), "classifier"), output(tiny(variant), "classifier")
        )


@every_variant
@every_head
def test_initializer_range_is_the_deviation_of_every_matrix(variant, head):
    model = tiny(variant, head, hidden_size=64, initializer_range=0.01)
    matrices = {name: p for name, p in model.named_parameters() if p.ndim > 1 and not name.endswith("depth_weight")}
    assert len(matrices) > 4
    for name, matrix in matrices.items():
        assert matrix.std().item() == pytest.approx(0.01, rel=0.2), name
    default = dict(tiny(variant, head, hidden_size=64).named_parameters())
    assert all(default[name].std() > 0.05 for name in matrices)
    assert default.keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("split", [(1, 6), (2, 3), (3, 2), (6, 1)])
def test_any_split_of_depth(split):
    blocks, depth = split
    model = tiny(num_blocks=blocks, block_depth=depth)
    out = model(**inputs(), output_hidden_states=True, output_attentions=True)
    assert len(out.hidden_states) == 7
    assert len(out.attentions) == 6
    assert out.attentions[0].shape == (3, 4, 8, 8)
    assert model.config.num_hidden_layers == 6


def test_encoder_and_decoder_may_differ():
    model = tiny("randomFF-2", "translator", decoder_num_blocks=1, decoder_block_depth=2)
    out = model(**inputs("translator"), output_hidden_states=True, output_attentions=True)
    assert len(out.encoder_hidden_states) == 7
    assert len(out.decoder_hidden_states) == 3
    assert len(out.decoder_attentions) == len(out.cross_attentions) == 2
    assert out.cross_attentions[0].shape == (3, 4, 6, 8)
    assert out.logits.shape == (3, 6, 50)


def test_the_papers_small_size_runs():
    """d=256 with 8 heads, on which the authors' code raises."""
    model = TransEvolveForSequenceClassification(TransEvolveConfig.variant("randomFF-1", vocab_size=50)).eval()
    assert torch.isfinite(output(model, "classifier")).all()


def test_embeddings_are_tied():
    model = tiny(head="translator")
    assert model.lm_head.weight is model.get_input_embeddings().weight
    assert sum("embedding" in n or "lm_head" in n for n, _ in model.named_parameters()) == 1


def test_tied_weights_survive_saving(tmp_path):
    tiny(head="translator").save_pretrained(tmp_path)
    assert len([k for k in load_file(tmp_path / "model.safetensors") if "embedding" in k or "lm_head" in k]) == 1
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert model.lm_head.weight is model.get_input_embeddings().weight


def counter(calls: list[int], place: int):
    """A hook that counts calls."""

    def count(*_):
        calls[place] += 1

    return count


@pytest.mark.parametrize("how", [None, {"use_reentrant": False}, {"use_reentrant": True}], ids=str)
@every_variant
@every_head
def test_gradient_checkpointing_gives_the_same_gradients(variant, head, how):
    grads, calls = [], [0, 0]
    for checkpointing in (False, True):
        model = tiny(variant, head, dropout=0.1).train()
        if checkpointing:
            model.gradient_checkpointing_enable(how)
        count = counter(calls, checkpointing)
        for module in model.modules():
            if isinstance(module, EncoderDepth):
                module.register_forward_pre_hook(count)
        torch.manual_seed(5)
        model(**inputs(head))[0].square().mean().backward()
        grads.append([p.grad for p in model.parameters()])
    assert calls[1] == 2 * calls[0] > 0, "every depth is recomputed"
    assert all(g is not None for g in grads[0])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("labels", "kind", "options"),
    [
        (torch.tensor([0, 2, 1]), "cross entropy", {}),
        (torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1]]), "binary", {}),
        (torch.tensor([0.5, -1.0, 2.0]), "squared", {"num_labels": 1}),
        (torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]), "binary", {"problem_type": "multi_label_classification"}),
        (torch.randn(3, 3), "squared", {"problem_type": "regression"}),
    ],
)
def test_classification_losses(labels, kind, options):
    out = tiny(**options)(**inputs(), labels=labels)
    logits = out.logits
    if kind == "cross entropy":
        expected = -logits.log_softmax(-1)[torch.arange(3), labels].mean()
    elif kind == "binary":
        expected = -(labels * logits.sigmoid().log() + (1 - labels) * (-logits).sigmoid().log()).mean()
    else:
        expected = (logits - labels.reshape(logits.shape)).square().mean()
    torch.testing.assert_close(out.loss, expected)


def test_translation_loss_is_unshifted():
    """Labels line up with logits; decoder inputs are the labels moved right behind the start token."""
    model = tiny(head="translator")
    batch = inputs("translator")
    labels = torch.tensor([[5, 6, 2, -100], [7, 2, -100, -100], [9, 9, 9, 2]])
    shifted = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0], [1, 9, 9, 9]])
    batch.pop("decoder_input_ids")
    out = model(**batch, labels=labels)
    logits = model(**batch, decoder_input_ids=shifted).logits
    torch.testing.assert_close(out.logits, logits)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(out.loss, expected)


def test_translation_loss_of_an_accumulated_batch():
    """Each part's share of the tokens: parts of unequal length sum to the loss of the whole."""
    model = tiny(head="translator", label_smoothing=0.1)
    batch = inputs("translator")
    batch.pop("decoder_input_ids")
    labels = torch.tensor([[5, 6, 2, -100], [7, 2, -100, -100], [9, 9, 9, 2]])
    whole = model(**batch, labels=labels).loss
    parts = [
        model(**{k: v[row] for k, v in batch.items()}, labels=labels[row], num_items_in_batch=torch.tensor(9)).loss
        for row in (slice(0, 1), slice(1, 3))
    ]
    torch.testing.assert_close(sum(parts), whole)


@every_backend
@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"do_sample": True, "top_k": 5}])
def test_generate(backend, how):
    model = tiny("fullFF-2", "translator", attention=backend)
    batch = inputs("translator")
    batch.pop("decoder_input_ids")
    torch.manual_seed(1)
    ids = model.generate(**batch, max_new_tokens=5, min_new_tokens=5, **how)
    assert ids.shape == (3, 6)
    assert (ids[:, 0] == 1).all()
    if not how:
        prefix = torch.ones(3, 1, dtype=torch.long)
        for _ in range(5):
            logits = model(**batch, decoder_input_ids=prefix).logits[:, -1]
            logits[:, 2] = -torch.inf
            prefix = torch.cat([prefix, logits.argmax(-1, keepdim=True)], 1)
        assert torch.equal(ids, prefix)


def test_inputs_embeds_and_tuples():
    model = tiny()
    batch = inputs()
    by_ids = model(**batch).logits
    vectors = model.get_input_embeddings()(batch["input_ids"])
    by_vectors = model(inputs_embeds=vectors, attention_mask=batch["attention_mask"]).logits
    assert torch.equal(by_ids, by_vectors)
    assert torch.equal(model(**batch, return_dict=False)[0], by_ids)


def test_resizing_the_vocabulary_keeps_the_rest():
    model = tiny(head="translator")
    before = output(model, "translator")
    model.resize_token_embeddings(60)
    assert model.config.vocab_size == 60
    assert output(model, "translator").shape[-1] == 60
    torch.testing.assert_close(output(model, "translator")[..., :50], before)


@pytest.mark.parametrize("backend", EXACT)
def test_backends_are_one_model(backend):
    a, b = tiny("randomFF-2", "translator"), tiny("randomFF-2", "translator", attention=backend)
    torch.testing.assert_close(output(a, "translator"), output(b, "translator"), rtol=1e-4, atol=1e-4)


def test_plain_encoder():
    encoder = EvolvedEncoder(32, 4, num_blocks=2, block_depth=3, feedforward="random")
    x = torch.randn(2, 10, 32)
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[1, 6:] = True
    y = encoder(x, key_padding_mask=padding)
    torch.testing.assert_close(y[1:, :6], encoder(x[1:, :6]), rtol=1e-5, atol=1e-5)
    causal = encoder(x, causal=True)
    torch.testing.assert_close(causal[:, :4], encoder(x[:, :4], causal=True), rtol=1e-5, atol=1e-5)


def test_auto_classes():
    config = AutoConfig.for_model("transevolve", **TINY)
    assert isinstance(config, TransEvolveConfig)
    for own, auto in HEADS.values():
        assert isinstance(auto.from_config(config), own)


def test_positions_have_no_limit():
    model = tiny(max_position_embeddings=16)
    ids = torch.randint(1, 50, (1, 100))
    assert torch.isfinite(model(ids).logits).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_size": 100, "num_attention_heads": 8}, "does not split into 8 heads of even width; use 96"),
        ({"hidden_size": 24, "num_attention_heads": 8}, "heads of even width; use 16"),
        ({"feedforward": "random", "intermediate_size": 65}, "is odd, use 66"),
        ({"attention": "litteral"}, "did you mean 'literal'"),
        ({"feedforward": "dense"}, "feedforward"),
        ({"vocab_size": 0}, "vocab_size must be at least 1"),
        ({"num_blocks": "two"}, "num_blocks"),
        ({"dropout": 1.5}, r"dropout must be in \[0, 1\)"),
        ({"rotation_seed": -1}, "rotation_seed must be at least 0"),
        ({"initializer_range": 0.0}, r"initializer_range must be in \(0"),
        ({"convention": "reference"}, "needs hidden_size=256"),
        ({"num_blocks": 1_000_000}, "num_blocks must be at most 1024"),
        ({"num_blocks": 100, "block_depth": 100}, "exceed 1024 depths"),
        ({"decoder_num_blocks": -2}, "decoder_num_blocks must be at least 1"),
        ({"decoder_num_blocks": 0}, "decoder_num_blocks must be at least 1"),
        ({"vocab_size": 10**12}, "vocab_size must be at most"),
        ({"num_labels": 10**12}, "num_labels must be at most"),
        ({"num_blocks": 2, "num_hidden_layers": 5}, "num_hidden_layers=5 does not split into 2 blocks"),
        ({"variant": "fullFF-1"}, "write TransEvolveConfig.variant"),
    ],
)
def test_invalid_values_are_refused(options, message):
    with pytest.raises(Exception, match=message):
        TransEvolveConfig(**{"num_attention_heads": 4, "hidden_size": 32, **options})


def test_unknown_variant_and_size():
    with pytest.raises(ValueError, match="did you mean 'randomFF-1'"):
        TransEvolveConfig.variant("randomff-1")
    with pytest.raises(ValueError, match="did you mean 'small'"):
        TransEvolveConfig.variant("fullFF-1", size="smal")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": torch.tensor([[1, 50]])}, "input_ids contains 50, outside the vocabulary 0..49"),
        ({"input_ids": torch.tensor([[1, -1]])}, "contains -1"),
        ({"input_ids": torch.zeros(1, 0, dtype=torch.long)}, "at least one token"),
        ({"input_ids": torch.tensor([1, 2])}, "must be .batch, length."),
        ({"input_ids": torch.tensor([[1.0, 2.0]])}, "must be integers"),
        ({"attention_mask": torch.ones(1, 3, dtype=torch.long)}, r"shape \(1, 2\)"),
        ({"attention_mask": torch.tensor([[0.5, 1.0]])}, "only 0 and 1"),
        ({"attention_mask": torch.tensor([[1, 2]])}, "only 0 and 1"),
        ({"input_ids": None}, "exactly one of input_ids and inputs_embeds"),
        ({"inputs_embeds": torch.ones(1, 2, 32)}, "exactly one of"),
        ({"input_ids": None, "inputs_embeds": torch.ones(1, 2, 31)}, "must be .batch, length, 32."),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused(change, message):
    arguments = {"input_ids": torch.tensor([[1, 2]]), **change}
    with pytest.raises((ValueError, TypeError), match=message):
        tiny()(**arguments)


@pytest.mark.usefixtures("unchecked")
def test_bad_decoder_input_is_refused():
    model = tiny(head="translator")
    with pytest.raises(ValueError, match="decoder_input_ids contains 77"):
        model(torch.tensor([[1, 2]]), decoder_input_ids=torch.tensor([[77]]))
    with pytest.raises(ValueError, match="exactly one of decoder_input_ids"):
        model(torch.tensor([[1, 2]]))


def test_another_rotation_is_refused(tmp_path):
    tiny("randomFF-1").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["rotation_checksum"] = "00000000"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="rotation checksum mismatch"):
        TransEvolveForSequenceClassification.from_pretrained(tmp_path)
    config["rotation_checksum"] = tiny("randomFF-1").config.rotation_checksum
    config["rotation_seed"] = 3
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="rotation checksum mismatch"):
        TransEvolveForSequenceClassification.from_pretrained(tmp_path)


def test_weights_of_another_variant_are_refused(tmp_path):
    model = tiny("fullFF-1")
    with pytest.raises(RuntimeError, match="state_dict"):
        model.load_state_dict(tiny("randomFF-1").state_dict())
    tiny("randomFF-1").save_pretrained(tmp_path)
    model.config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not contain"):
        TransEvolveForSequenceClassification.from_pretrained(tmp_path)


@every_variant
def test_a_new_head_begins_as_in_a_new_model(variant, tmp_path):
    encoder = tiny(variant, "encoder")
    encoder.save_pretrained(tmp_path / "encoder")
    grown = TransEvolveForSequenceClassification.from_pretrained(tmp_path / "encoder", num_labels=3)
    torch.testing.assert_close(grown.model.state_dict(), encoder.state_dict())
    grown.save_pretrained(tmp_path / "three")
    other = TransEvolveForSequenceClassification.from_pretrained(
        tmp_path / "three", num_labels=20, ignore_mismatched_sizes=True
    )
    for model, labels in ((grown, 3), (other, 20)):
        weight, bias = model.head.classifier.weight, model.head.classifier.bias
        limit = (6 / (TINY["hidden_size"] + labels)) ** 0.5
        assert limit / 2 < weight.abs().max() <= limit
        assert not bias.any()


def test_loaded_draws_stay_in_the_checkpoint(tmp_path):
    model = tiny("randomFF-1", rotation_seed=None)
    for name, buffer in model.named_buffers():
        torch.nn.init.normal_(buffer, std=0.1 + 0.01 * len(name))
    expected = output(model, "classifier")
    model.save_pretrained(tmp_path)
    assert torch.equal(output(AutoModelForSequenceClassification.from_pretrained(tmp_path), "classifier"), expected)
