"""Hugging Face's model and generation tests on every public class; `tests/test_hf_suites.py` runs this file.

What does not apply is in `NOT_APPLICABLE`, with the reason.
"""

import unittest
from typing import Any, ClassVar

import torch
from checkout import load
from transformers.models.auto import modeling_auto

import transevolve
from transevolve import PeerConfig, TransEvolveConfig
from transevolve.evolution.block import EncoderDepth
from transevolve.models.cache import TransEvolveCache
from transevolve.models.heads import MODELS
from transevolve.peers.layer import PeerLayer

common = load("tests.test_modeling_common")
generation = load("tests.generation.test_utils")

# `evolution` imports only torch, so it does not use Hugging Face's checkpointing class, and recomputes these modules.
common.GradientCheckpointingLayer = (EncoderDepth, PeerLayer)

NAMES = {
    "AutoModel": "MODEL_MAPPING_NAMES",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForTokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "AutoModelForCausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "AutoModelForSeq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
}
for model in MODELS:  # the tests know by the name of a class which labels it takes
    getattr(modeling_auto, NAMES[model.auto])[model.model_type] = model.name

STRICT = "a checkpoint of another model is refused, not completed with new weights"
NOT_APPLICABLE = {
    "test_model_weights_reload_no_missing_tied_weights": STRICT,
    "TranslatorTest.test_correct_missing_keys": STRICT,
    "TranslatorTest.test_base_model_prefix_loads_base_weights": STRICT,
    "test_past_key_values_format": "the cache has one past per block, which all of its depths share, not one per layer",
}


class Tester:
    """A small configuration, and inputs for it."""

    is_training = True
    batch_size, seq_length, encoder_seq_length = 3, 7, 7
    hidden_size, num_attention_heads, num_hidden_layers = 32, 4, 2
    num_labels, num_choices = 3, 2

    def __init__(self, parent, **settings):
        self.parent, self.settings = parent, settings
        self.key_length = self.decoder_seq_length = self.seq_length

    def get_config(self):
        shape = {"vocab_size": 99, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
        special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        if "system" in self.settings:
            shape["num_hidden_layers"] = 2
            return PeerConfig(**shape, **special, num_labels=3, dropout=0.0, **self.settings)
        blocks = {"num_blocks": 1, "block_depth": 2}
        return TransEvolveConfig(**{**shape, **special, **blocks, "num_labels": 3, "dropout": 0.0, **self.settings})

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        ids = common.ids_tensor([self.batch_size, self.seq_length], config.vocab_size - 3) + 3
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids.clone()
            inputs["decoder_attention_mask"] = torch.ones_like(ids)
        return config, inputs

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


class Suite(common.ModelTesterMixin):
    settings: ClassVar[dict[str, Any]] = {}
    test_resize_embeddings = True

    def setUp(self):
        self.model_tester = Tester(self, **self.settings)

    def test_retain_grad_hidden_states_attentions(self):
        """For hidden states only: attention matrices are computed separately from the output."""
        self.has_attentions = False
        super().test_retain_grad_hidden_states_attentions()


class GenerationSuite(Suite, generation.GenerationTesterMixin):
    """The checks of caches, for one past per block."""

    def _check_past_key_values_for_generate(self, batch_size, past_key_values, seq_length, config):
        assert isinstance(past_key_values, TransEvolveCache)
        blocks = config.decoder_num_blocks if config.is_encoder_decoder else config.num_blocks
        assert len(past_key_values) == blocks
        assert past_key_values.get_seq_length() == seq_length

    def _check_caches_are_equal(self, cache1, cache2):
        assert len(cache1) == len(cache2)
        for one, other in zip(cache1.streams, cache2.streams, strict=True):
            assert one.length == other.length
            torch.testing.assert_close(one.keys.filled, other.keys.filled)


class EncoderTest(Suite, unittest.TestCase):
    all_model_classes = (
        transevolve.TransEvolveModel,
        transevolve.TransEvolveForSequenceClassification,
        transevolve.TransEvolveForTokenClassification,
        transevolve.TransEvolveForMaskedLM,
    )


class RandomEncoderTest(EncoderTest):
    settings: ClassVar[dict[str, Any]] = {"feedforward": "random", "num_blocks": 2, "block_depth": 1}


class CausalTest(GenerationSuite, unittest.TestCase):
    all_model_classes = (transevolve.TransEvolveForCausalLM,)


class TranslatorTest(GenerationSuite, unittest.TestCase):
    all_model_classes = (transevolve.TransEvolveForConditionalGeneration,)
    settings: ClassVar[dict[str, Any]] = {"is_encoder_decoder": True}
    is_encoder_decoder = True


class PeerTest(Suite, unittest.TestCase):
    all_model_classes = (
        transevolve.PeerModel,
        transevolve.PeerForSequenceClassification,
        transevolve.PeerForMaskedLM,
        transevolve.PeerForTokenClassification,
    )
    settings: ClassVar[dict[str, Any]] = {"system": "transformer"}
    has_attentions = False


def skip_what_does_not_apply() -> None:
    for name, reason in NOT_APPLICABLE.items():
        owner, _, test = name.rpartition(".")
        for case in (EncoderTest, RandomEncoderTest, CausalTest, TranslatorTest, PeerTest):
            if (not owner or case.__name__ == owner) and hasattr(case, test):
                setattr(case, test, unittest.skip(reason)(getattr(case, test)))


skip_what_does_not_apply()
