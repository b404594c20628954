"""Models whose weights accelerate keeps on the CPU or on disk give the logits of models in memory."""

import warnings

import accelerate
import pytest
import torch
from accelerate.hooks import remove_hook_from_submodules
from transformers import PreTrainedModel

from transevolve import TransEvolveConfig, TransEvolveForConditionalGeneration, TransEvolveForSequenceClassification
from transevolve.models.peer import PeerForSequenceClassification
from transevolve.models.peer_config import PeerConfig

TINY = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "row_operators": True}
IDS = torch.randint(3, 40, (3, 7), generator=torch.Generator().manual_seed(1))
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [0] * 7])
CASES = [
    "classifier fullFF-2",
    "classifier randomFF-1",
    "classifier linear",
    "translator fullFF-2",
    "translator randomFF-2",
]
PEERS = ["linformer", "lazyformer"]


def build(case: str) -> PreTrainedModel:
    torch.manual_seed(0)
    head, variant = case.split()
    if head == "peer":
        sizes = {key: value for key, value in TINY.items() if key != "row_operators"}
        model = PeerForSequenceClassification(PeerConfig(system=variant, num_hidden_layers=2, **sizes))
    else:
        config = TransEvolveConfig.variant("fullFF-1" if variant == "linear" else variant, **TINY)
        config.attention = "linear" if variant == "linear" else "auto"
        kind = TransEvolveForConditionalGeneration if head == "translator" else TransEvolveForSequenceClassification
        model = kind(config)
    for parameter in model.parameters():  # norms and biases that do something
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


@torch.no_grad()
def logits(model: PreTrainedModel) -> list[torch.Tensor]:
    if not isinstance(model, TransEvolveForConditionalGeneration):
        return [model(IDS, MASK).logits]
    cache, target = model.new_cache(), IDS.flip(1)
    pieces = [
        model(IDS, MASK, decoder_input_ids=part, past_key_values=cache).logits
        for part in (target[:, :3], target[:, 3:])
    ]
    return [model(IDS, MASK, decoder_input_ids=target).logits, torch.cat(pieces, 1)]


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("where", ["cpu", "disk"])
@pytest.mark.parametrize("case", [*CASES, *(f"peer {name}" for name in PEERS)])
def test_offloaded_weights(case, where, tmp_path):
    model = build(case)
    expected = logits(model)
    if where == "cpu":
        accelerate.cpu_offload(model, torch.device("cpu"))
    else:
        accelerate.disk_offload(model, str(tmp_path), torch.device("cpu"))
    assert next(model.parameters()).is_meta
    same(logits(model), expected)
    same(logits(model), expected)
    remove_hook_from_submodules(model)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", CASES)
def test_device_map_with_disk(case, tmp_path):
    """`device_map`: embedding in memory, everything else on disk."""
    model = build(case)
    expected = logits(model)
    model.save_pretrained(tmp_path / "model")
    places = {name: "disk" for name, _ in model.named_children()}
    if "encoder" in places:
        del places["encoder"]
        places |= {"encoder.embedding": "cpu", "encoder.encoder": "disk", "lm_head": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = type(model).from_pretrained(tmp_path / "model", device_map=places, offload_folder=tmp_path / "offload")
    assert any(parameter.is_meta for parameter in loaded.parameters())
    same(logits(loaded), expected)
