"""What a decoder keeps between tokens: the past of every block, and one memory of the source."""

from jaxtyping import Float, Int
from torch import Tensor

from .block import BlockPast


class DecoderPast:
    """Per block one set of keys, per depth their drift and values; of the source, keys per block and, once for all
    depths and blocks, its normalised form `values`. Rows may be beams: a sentence's source is kept once for all."""

    def __init__(self, blocks: list[BlockPast]):
        self.blocks = blocks
        self.values: Float[Tensor, "sentences heads k part"] | None = None

    @property
    def length(self) -> int:
        return self.blocks[0].stream.length

    @property
    def sentences(self) -> int:
        memory = self.blocks[0].memory
        if memory is None:
            raise ValueError("nothing was decoded yet: the past knows no sentences")
        return memory.sentences

    def reorder(self, parents: Int[Tensor, " batch"]) -> None:
        """Row i goes on from row `parents[i]` of the same sentence; the source's part stays where it is."""
        for block in self.blocks:
            block.stream.reorder(parents, self.sentences)

    def select(self, sentences: Int[Tensor, " kept"], width: int) -> None:
        """Keeps only these sentences, of `width` rows each."""
        self.values = None if self.values is None else self.values[sentences]
        for block in self.blocks:
            block.stream.select(sentences, width)
            if block.memory is not None:
                block.memory.select(sentences, self.values)

    def crop(self, length: int) -> None:
        """Forgets all but the first `length` tokens."""
        for block in self.blocks:
            block.stream.crop(length)

    def self_bytes(self) -> int:
        """Memory that the target's past takes."""
        return _bytes([tensor for block in self.blocks for tensor in block.stream.tensors()])

    def cross_bytes(self) -> int:
        """Memory that the source takes."""
        return _bytes([t for block in self.blocks if block.memory is not None for t in block.memory.tensors()])


def _bytes(tensors: list[Tensor]) -> int:
    """Of tensors some of which may be the same one."""
    unique = {tensor.data_ptr(): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.itemsize for tensor in unique.values())
