"""CTranslate2 as a baseline: a Marian model with the same random weights, in its own engine."""

import tempfile
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..core.errors import UserError


class Engine:
    """A Marian model converted by CTranslate2, in float32 or int8. Its tokens are the names of ids."""

    def __init__(self, model: PreTrainedModel, int8: bool):
        if find_spec("ctranslate2") is None:
            raise UserError("this decoding needs ctranslate2: pip install ctranslate2")
        import ctranslate2
        from ctranslate2.converters.transformers import MarianMTLoader

        precision = "int8" if int8 else "float32"
        spec: Any = MarianMTLoader().get_model_spec(model)
        # The converter drops the last row, which is padding in the models of Marian.
        vocabulary = [str(token) for token in range(model.config.vocab_size - 1)]
        spec.register_source_vocabulary(vocabulary)
        spec.register_target_vocabulary(vocabulary)
        spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = vocabulary[:3]
        spec.config.decoder_start_token = str(model.config.decoder_start_token_id)
        spec.config.add_source_eos = False
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.optimize(quantization="int8" if int8 else None)
            spec.save(folder)
            threads = torch.get_num_threads()
            self.translator = ctranslate2.Translator(folder, "cpu", compute_type=precision, intra_threads=threads)

    def decode(self, source: Tensor, beams: int, new_tokens: int) -> int:
        """Decodes exactly `new_tokens` tokens of every sentence; returns the number of decoded tokens."""
        rows = [[str(token) for token in row] for row in source.tolist()]
        found = self.translator.translate_batch(
            rows,
            beam_size=beams,
            max_batch_size=0,
            min_decoding_length=new_tokens,
            max_decoding_length=new_tokens,
            length_penalty=0.6,
        )
        return max(len(result.hypotheses[0]) for result in found)
