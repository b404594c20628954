"""`TransEvolveCache`: the state of decoding as a Hugging Face cache."""

from typing import Any, Never

from torch import Tensor
from transformers import Cache

from ..evolution.backends.state import Stream
from ..evolution.decoder_state import DecoderState


class NoLayers(list):
    """The empty list of layers that Hugging Face's cache keeps; asking for one of them is an error."""

    def __getitem__(self, index: Any) -> Never:
        raise TypeError("a TransEvolveCache has one past per block, which its depths share, not one per layer")


class TransEvolveCache(DecoderState, Cache):
    """A `DecoderState` with the interface of a Hugging Face cache, made by a model's `new_cache()`.

    It has one past per block, not per layer. Reordering beams moves no tensors, except the sums of `linear`.
    """

    def __init__(self, streams: list[Stream], rows_of: int | None = None):
        Cache.__init__(self, layers=NoLayers())
        DecoderState.__init__(self, streams, rows_of)

    def __len__(self) -> int:
        return len(self.streams)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(blocks={len(self)}, length={self.length})"

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """-1: there is no limit."""
        return -1

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return self.length > 0

    @property
    def is_croppable(self) -> bool:
        return self.croppable

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i continues row `beam_idx[i]`, a beam of the same sentence; the first call may add rows."""
        self.reorder(beam_idx.long())

    def crop(self, tokens_to_remove: int) -> None:
        """`crop(-n)` removes the last n tokens, as in Hugging Face's caches."""
        if tokens_to_remove > 0:
            raise ValueError(f"crop takes the number of tokens to remove as a negative integer, got {tokens_to_remove}")
        if tokens_to_remove:
            self.truncate(self.length + tokens_to_remove)

    def reset(self) -> None:
        raise NotImplementedError("a cache belongs to its source: make a new one with model.new_cache()")

    def update(self, *args, **kwargs):
        raise NotImplementedError("evolved attention updates its cache itself: pass it to the model's forward")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise NotImplementedError("use reorder_cache to add rows")

    def batch_select_indices(self, indices: Tensor) -> None:
        raise NotImplementedError("use select to drop sentences, reorder_cache to choose beams")
