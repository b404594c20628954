"""The state of a decoder between tokens: the past of every block, and one prepared source."""

from jaxtyping import Float, Int
from torch import Tensor

from .backends.state import PreparedKeys, Stream


class DecoderState:
    """The past of a decoder's blocks, and the source they attend to.

    A block stores keys once, and their drift and values for each depth. Source keys are stored once per block, and the
    normalized source, `values`, once for all depths and blocks. Rows may be beams; they share a source.

    Without a source, as in a language model, rows are beams of `rows_of` sequences; with 1, any row may continue any
    other.
    """

    def __init__(self, streams: list[Stream], rows_of: int | None = None):
        self.streams, self.rows_of = streams, rows_of
        self.prepared: list[PreparedKeys] = []
        self.values: Float[Tensor, "sentences heads k part"] | None = None

    @property
    def length(self) -> int:
        """Tokens decoded so far."""
        return self.streams[0].length

    @property
    def croppable(self) -> bool:
        return all(stream.croppable for stream in self.streams)

    @property
    def sentences(self) -> int:
        if self.rows_of is not None:
            return self.rows_of
        if not self.prepared:
            raise ValueError("the state has no source yet: run the decoder with it first")
        return self.prepared[0].sentences

    def prepare(self, values: Float[Tensor, "sentences heads k part"], prepared: list[PreparedKeys]) -> None:
        """Sets the source: its normalized form, and the keys of every block."""
        self.values, self.prepared = values, prepared

    def reorder(self, parents: Int[Tensor, " batch"]) -> None:
        """Row i continues row `parents[i]` of the same sentence; the first call may add rows."""
        sentences = self.sentences
        for stream in self.streams:
            stream.reorder(parents, sentences)

    def select(self, sentences: Int[Tensor, " kept"], width: int) -> None:
        """Keeps these sentences only, with all `width` rows of each."""
        for stream in self.streams:
            stream.select(sentences, width)
        if self.rows_of is not None:
            self.rows_of = len(sentences)
        if self.values is not None:
            self.values = self.values[sentences]
            for keys in self.prepared:
                keys.select(sentences, self.values)

    def truncate(self, length: int) -> None:
        """Drops all but the first `length` tokens."""
        for stream in self.streams:
            stream.truncate(length)

    def self_bytes(self) -> int:
        """Bytes of the past, including unused storage."""
        return _bytes([tensor for stream in self.streams for tensor in stream.tensors()])

    def cross_bytes(self) -> int:
        """Bytes of the source."""
        return _bytes([tensor for keys in self.prepared for tensor in keys.tensors()])


def _bytes(tensors: list[Tensor]) -> int:
    """Shared tensors count once."""
    unique = {tensor.data_ptr(): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.itemsize for tensor in unique.values())
