"""`TransEvolveCache`: what decoding keeps between tokens, as Hugging Face's `generate` wants to hold it."""

from torch import Tensor
from transformers import Cache

from ..evolution.decoder_state import DecoderPast


class TransEvolveCache(Cache):
    """A decoder's past, made by `TransEvolveForConditionalGeneration.new_cache()`.

    Per block one set of keys, per depth the drift and values of self attention; of the source, keys per block and one
    normalised copy for all depths and blocks, kept once a sentence however many beams it has. Reordering beams touches
    the self part only, and moves no tensor of it (but the sums of the `linear` backend).
    """

    def __init__(self, past: DecoderPast):
        super().__init__(layers=[])
        self.past = past

    def __len__(self) -> int:
        return len(self.past.blocks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={len(self)}, length={self.get_seq_length()})"

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.past.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """-1: it grows."""
        return -1

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return self.past.length > 0

    @property
    def is_croppable(self) -> bool:
        return all(block.stream.croppable for block in self.past.blocks)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i goes on from row `beam_idx[i]`, a beam of the same sentence; the first time, rows may multiply."""
        self.past.reorder(beam_idx.long())

    def keep_sentences(self, sentences: Tensor, beams: int) -> None:
        """Drops all but these sentences, each with all its beams."""
        self.past.select(sentences, beams)

    def crop(self, tokens_to_remove: int) -> None:
        self.past.crop(self.past.length - tokens_to_remove)

    def reset(self) -> None:
        raise NotImplementedError("a cache belongs to its source sentences: make a new one with model.new_cache()")

    def update(self, *args, **kwargs):
        raise NotImplementedError("evolved attention fills its cache itself: give it to the model's forward")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise NotImplementedError("reorder_cache multiplies rows")

    def batch_select_indices(self, indices: Tensor) -> None:
        raise NotImplementedError("keep_sentences drops sentences, reorder_cache chooses beams")

    def self_bytes(self) -> int:
        """Memory that the target's past takes, room to grow included."""
        return self.past.self_bytes()

    def cross_bytes(self) -> int:
        """Memory that the source takes."""
        return self.past.cross_bytes()
