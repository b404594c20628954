"""The state of attention between tokens: the past of a causal sequence, and keys prepared for many queries."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..initial import InitialCondition
from ..masks import sees_no_key
from ..reads import read

if TYPE_CHECKING:
    from .backend import Evolution


class Stream(ABC):
    """The past of one block's causal attention."""

    croppable: bool = True
    length: int = 0
    key_padding_mask: Bool[Tensor, "batch n"] | None = None

    def extend(self, initial: InitialCondition) -> "Evolution":
        """Appends the next tokens; each depth's `mix` then appends their values."""
        if not initial.causal:
            raise ValueError("only causal attention can continue a stream")
        self._append_mask(initial)
        self.length += initial.keys.shape[1]
        return self._evolution(initial)

    def _append_mask(self, initial: InitialCondition) -> None:
        """The mask stays None while there is nothing to ignore."""
        new = initial.key_padding_mask
        if new is None and self.key_padding_mask is None:
            return
        none = torch.zeros(initial.keys.shape[:1], dtype=torch.bool, device=initial.keys.device)[:, None]
        old = none.expand(-1, self.length) if self.key_padding_mask is None else self.key_padding_mask
        self.key_padding_mask = torch.cat([old, none.expand(-1, initial.keys.shape[1]) if new is None else new], 1)

    def sees_no_key(self, queries: int) -> Bool[Tensor, "batch q"] | None:
        """Which of the last `queries` tokens have no key to attend to; None if all have one."""
        found = sees_no_key(self.key_padding_mask, causal=True)
        return None if found is None else found[:, -queries:]

    def reorder(self, parents: Int[Tensor, " batch"], sentences: int) -> None:
        """Row i continues row `parents[i]` of the same sentence; the first call may add rows."""
        if self.key_padding_mask is not None:
            self.key_padding_mask = self.key_padding_mask[parents]
        self._reorder(parents, len(parents) // sentences)

    def select(self, sentences: Int[Tensor, " kept"], width: int) -> None:
        """Keeps these sentences only, with all `width` rows of each."""
        rows = (sentences[:, None] * width + torch.arange(width, device=sentences.device)).flatten()
        if self.key_padding_mask is not None:
            self.key_padding_mask = self.key_padding_mask[rows]
        self._select(sentences, rows)

    @abstractmethod
    def _evolution(self, initial: InitialCondition) -> "Evolution": ...

    @abstractmethod
    def _reorder(self, parents: Tensor, width: int) -> None: ...

    @abstractmethod
    def _select(self, sentences: Tensor, rows: Tensor) -> None: ...

    @abstractmethod
    def truncate(self, length: int) -> None:
        """Drops all but the first `length` tokens."""

    @abstractmethod
    def tensors(self) -> list[Tensor]:
        """All stored tensors."""


class PreparedKeys(ABC):
    """The source of cross attention, stored once per sentence for any number of beams.

    All depths share the values, the normalized encoder output, and their weights depend only on the block's input: the
    attention of new queries at all depths is one product.
    """

    sentences: int
    sees_no_key: Bool[Tensor, "batch 1"] | None

    def __init__(self, initial: InitialCondition):
        self.sentences = initial.keys.shape[0]
        found = sees_no_key(initial.key_padding_mask, causal=False)
        self.sees_no_key = found if found is not None and read(found.any(), "padding") else None

    @abstractmethod
    def attend(self, initial: InitialCondition) -> "PreparedEvolution":
        """Attention of new queries; the keys of this initial condition are not used."""

    def select(self, sentences: Int[Tensor, " kept"], values: Float[Tensor, "kept heads k part"]) -> None:
        """Keeps these sentences only; `values` are theirs, shared by all blocks."""
        self.sentences = len(sentences)
        self.sees_no_key = None if self.sees_no_key is None else self.sees_no_key[sentences]
        self._select(sentences, values)

    @abstractmethod
    def _select(self, sentences: Tensor, values: Tensor) -> None: ...

    @abstractmethod
    def tensors(self) -> list[Tensor]:
        """All stored tensors."""


class PreparedEvolution(ABC):
    """The attention of queries to prepared keys; `mixed` are the averaged values of every depth."""

    mixed: Float[Tensor, "batch heads #depth q part"]

    def at(self, l: int) -> Float[Tensor, "batch heads q part"]:
        """The values averaged by the attention of depth l; zero where a query sees no key."""
        return self.mixed[:, :, min(l, self.mixed.shape[2]) - 1]

    @abstractmethod
    def attention(self, l: int) -> Float[Tensor, "batch heads q k"]:
        """The attention matrix of depth l."""
