"""Settings are declared once, in modules without torch; configurations, ranges and builders derive from them."""

import subprocess
import sys
from dataclasses import fields
from inspect import signature

import pytest
import torch
import transformers

import transevolve
from transevolve import PeerConfig, TransEvolveConfig
from transevolve.evolution.block import BlockOptions
from transevolve.evolution.settings import EvolutionSettings, LayerSettings
from transevolve.models.build import build_marian, build_peer, build_transevolve
from transevolve.models.heads import MODELS, PEER
from transevolve.models.settings import SIZES, VARIANTS, ModelSettings, PeerSettings, TextSettings

TINY = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "dropout": 0.0}
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def test_settings_import_no_torch():
    script = """
import sys, types
package = types.ModuleType("transevolve")
package.__path__ = [sys.argv[1]]
sys.modules["transevolve"] = package
import transevolve.models.settings, transevolve.models.heads
assert not {"torch", "transformers", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script, *transevolve.__path__], check=True)


@pytest.mark.parametrize("settings", [LayerSettings, EvolutionSettings, TextSettings, ModelSettings, PeerSettings])
def test_every_setting_has_help(settings):
    for declared in fields(settings):
        assert declared.metadata["help"].endswith("."), declared.name


@pytest.mark.parametrize(
    ("config", "settings"), [(TransEvolveConfig, ModelSettings), (PeerConfig, PeerSettings)], ids=["own", "peer"]
)
def test_a_configuration_has_the_fields_and_ranges_of_its_settings(config, settings):
    declared = {f.name: f for f in fields(config)}
    small = {"num_attention_heads": 1, "hidden_size": 2}
    for setting in fields(settings):
        assert declared[setting.name].default == setting.default
        within = setting.metadata["range"]
        if within is None:
            continue
        for value in (within.least - 1, within.most + 1):
            value = float(value) if "float" in str(setting.type) else int(value)
            with pytest.raises(Exception, match=rf"{setting.name} must (be|lie)"):
                config(**{**small, setting.name: value})


def test_a_default_is_written_once():
    """Layers, blocks and backends refer to the settings; only dropout is off in plain layers."""
    own = {"dropout"}
    for declared in fields(BlockOptions):
        if declared.name not in (*own, "depth"):
            assert declared.default == getattr(EvolutionSettings, declared.name)
    options = signature(transevolve.EvolvedAttention).parameters
    for name in ("evolution", "row_operators", "convention"):
        assert options[name].default == getattr(EvolutionSettings, name)


def test_a_setting_reaches_the_place_that_uses_it():
    for attention, setting, name in (
        ("linear", {"num_features": 7}, "features"),
        ("linear", {"feature_redraw_interval": 3}, "redraw_interval"),
        ("auto", {"attention_memory_budget": 5}, "memory_budget"),
    ):
        model = build_transevolve("Model", **TINY, attention=attention, layer_norm_eps=1e-2, **setting)
        block = model.encoder.blocks[0]
        assert getattr(block.attention.backend, name) == next(iter(setting.values()))
        assert block.norm.eps == 1e-2


@every_model
def test_every_model_has_its_auto_class_and_name(model, tmp_path):
    own = getattr(transevolve, model.name)
    build = build_peer if model.model_type == PEER else build_transevolve
    head = model.name.removeprefix("Peer" if model.model_type == PEER else "TransEvolve")
    more = {"system": "transformer"} if model.model_type == PEER else {}
    made = build(head, **more, **TINY).eval()
    assert type(made) is own
    made.save_pretrained(tmp_path)
    loaded = getattr(transformers, model.auto).from_pretrained(tmp_path)
    assert type(loaded) is own
    for name, value in made.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


def test_unknown_head():
    with pytest.raises(ValueError, match="did you mean 'ForMaskedLM'"):
        build_transevolve("ForMaskdLM")


@pytest.mark.parametrize("size", SIZES)
def test_marian_has_the_same_shape(size):
    settings = {"vocab_size": 50, "num_blocks": 2, "block_depth": 2, "eos_token_id": None}
    with torch.device("meta"):
        marian = build_marian(size, **settings)
        own = build_transevolve("ForConditionalGeneration", "fullFF-2", size, **settings)
    for name in ("hidden_size", "vocab_size", "dropout", "pad_token_id", "decoder_start_token_id", "eos_token_id"):
        assert getattr(marian.config, name) == getattr(own.config, name), name
    assert marian.config.encoder_layers == own.config.num_hidden_layers == 4
    assert marian.config.decoder_ffn_dim == own.config.intermediate_size


def test_marian_refuses_settings_it_does_not_use():
    with pytest.raises(ValueError, match="marian has no embedding_dropout"):
        build_marian(embedding_dropout=0.1)
    with pytest.raises(TypeError, match="no setting 'hiden_size'; did you mean 'hidden_size'"):
        build_marian(hiden_size=3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_misspelt_setting_is_refused(variant):
    with pytest.raises(TypeError, match="no setting 'hiden_size'; did you mean 'hidden_size'"):
        TransEvolveConfig.variant(variant, hiden_size=3)
    with pytest.raises(TypeError, match="did you mean 'dropout'"):
        PeerConfig.of_size("transformer", droput=0.1)
