"""Tokenizes texts in batches, directly into Arrow columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerFast

from ..core.errors import UserError
from .pair_tokenizers import is_paired
from .stored import TEXT, TableWriter
from .tokenizers import FIRST_BYTE
from .wide_rows import split_pair

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 1024


@dataclass
class Encoded:
    """The concatenated token ids of texts; text i is `ids[offsets[i]:offsets[i + 1]]`.

    `truncated` is the number of truncated texts, `cut` the number of tokens removed from them.
    """

    ids: np.ndarray
    offsets: np.ndarray
    truncated: int = 0
    cut: int = 0

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def rows(self) -> list[np.ndarray]:
        """The ids of each text."""
        return [self.ids[start:end] for start, end in zip(self.offsets, self.offsets[1:], strict=False)]

    def select(self, kept: np.ndarray) -> "Encoded":
        """The texts where the mask is true."""
        lengths = self.lengths
        return Encoded(self.ids[np.repeat(kept, lengths)], offsets_of(lengths[kept]))

    def column(self) -> pa.Array:
        """The ids as an Arrow column of lists, without copying."""
        return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.ids))

    def dataset(self, labels: np.ndarray, per_token: bool = False) -> "Dataset":
        """A dataset with one label, a row of labels, or one label per token for each text."""
        table = SplitWriter()
        table.add_rows(self, labels, per_token=per_token)
        return table.split()


class SplitWriter(TableWriter):
    """Writes the rows of a split, batch by batch."""

    def __init__(self):
        super().__init__()
        self.digest = sha256()
        self.names: list[str] = []

    def add_rows(
        self,
        rows: Encoded,
        labels: np.ndarray,
        owners: np.ndarray | None = None,
        *,
        per_token: bool = False,
        texts: Sequence[str] | None = None,
        start: int = 0,
    ) -> None:
        """Add rows with one label, a row of labels, or one label per token for each text.

        If rows are windows of texts, `owners` is the index of each row's text in this batch, and `start` the index of
        the batch's first text in the split. Texts are stored with their first window, but are not a column of the
        split.
        """
        labels = labels if owners is None else labels[owners]
        marks = pa.array(labels.ravel())
        if labels.ndim == 2:
            marks = pa.FixedSizeListArray.from_arrays(marks, labels.shape[1])
        elif per_token:
            marks = pa.LargeListArray.from_arrays(pa.array(rows.offsets), marks)
        columns = {"input_ids": rows.column(), "labels": marks, "length": _int32(rows.lengths)}
        if owners is not None:
            columns["row"] = pa.array(owners + start)
        self.names = list(columns)
        if texts is not None:
            columns[TEXT] = pa.array(_with_first(texts, owners), pa.large_string())
        self._digest(rows.ids, rows.offsets, labels, *([] if owners is None else [owners]))
        self.add(columns)

    def add_pairs(self, sources: Encoded, targets: Encoded, texts: Mapping[str, Sequence[str]]) -> None:
        """Add sources as `input_ids`, targets as `labels`, the longer length as `length`, and text columns."""
        longer = np.maximum(sources.lengths, targets.lengths)
        columns = {"input_ids": sources.column(), "labels": targets.column(), "length": _int32(longer)}
        columns |= {name: pa.array(column, pa.large_string()) for name, column in texts.items()}
        self.names = list(columns)
        self._digest(sources.ids, sources.offsets, targets.ids, targets.offsets)
        self.add(columns)

    def split(self) -> "Dataset":
        """The split. Its fingerprint is computed here because the datasets library would copy all columns."""
        return self.dataset(self.names, self.digest.hexdigest()[:16])

    def _digest(self, *content: np.ndarray) -> None:
        for part in content:
            self.digest.update(np.ascontiguousarray(part).data)


def _with_first(texts: Sequence[str], owners: np.ndarray | None) -> Sequence[str | None]:
    """The text of each row; None for a window that continues the one before."""
    if owners is None:
        return texts
    before = [-1, *owners[:-1].tolist()]
    return [None if owner == last else texts[int(owner)] for owner, last in zip(owners.tolist(), before, strict=True)]


def joined_ids(rows: "Dataset") -> tuple[np.ndarray, np.ndarray]:
    """The concatenated token ids of a dataset, and the offset of each text, without Python integers."""
    column = rows.data.column("input_ids").combine_chunks()
    offsets = column.offsets.to_numpy()
    return column.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]], offsets - offsets[0]


def _int32(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int32))


def id_type(vocab_size: int) -> type[np.unsignedinteger]:
    """The smallest type for all ids."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if vocab_size <= np.iinfo(kind).max + 1)


def encode(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], max_length: int | None, where: Callable[[int], str]
) -> Encoded:
    """Encode as `tokenizer(text, truncation=True, max_length=max_length)` does, and count what was cut.

    If `max_length` is None, texts are not truncated. `where(i)` is the origin of text i, for error messages.
    """
    paired = is_paired(tokenizer)
    if max_length is not None and max_length <= tokenizer.num_special_tokens_to_add(pair=paired):
        raise no_room(max_length)
    unit = tokenizer.init_kwargs.get("unit")
    if paired:
        pairs = [split_pair(text, where(position)) for position, text in enumerate(texts)]
        return encode_pieces(tokenizer, pairs, max_length, where)
    if unit is not None:
        return _encode_symbols(tokenizer, unit, texts, max_length)
    return encode_pieces(tokenizer, texts, max_length, where)


def no_room(max_length: int) -> UserError:
    return UserError(f"data.max_length {max_length} leaves no room for text besides the special tokens; increase it")


def encode_pieces(
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    max_length: int | None,
    where: Callable[[int], str],
    visit: Callable[[Any, Any], object] | None = None,
) -> Encoded:
    """`visit` is called with each text and its encoding, with offsets."""
    backend = tokenizer.backend_tokenizer
    encode_batch = backend.encode_batch_fast if visit is None else backend.encode_batch
    backend.encode_special_tokens = tokenizer.split_special_tokens
    if max_length is not None:
        backend.enable_truncation(max_length)
    special = tokenizer.num_special_tokens_to_add(pair=is_paired(tokenizer))
    lengths, parts, truncated, cut = np.zeros(len(texts), dtype=np.int64), [], 0, 0
    kind = id_type(len(tokenizer))
    try:
        for start in range(0, len(texts), BATCH):
            batch = list(texts[start : start + BATCH])
            try:
                encodings = encode_batch(batch)
            except Exception as error:
                raise _not_encodable(tokenizer, batch, error, lambda index, start=start: where(start + index)) from None
            for index, encoding in enumerate(encodings, start=start):
                lengths[index] = len(encoding)
                truncated += bool(encoding.overflowing)
                cut += sum(len(rest) - special for rest in encoding.overflowing)
                if visit is not None:
                    visit(texts[index], encoding)
            parts.append(np.concatenate([np.asarray(encoding.ids, dtype=kind) for encoding in encodings]))
    finally:
        backend.no_truncation()
    if not lengths.all():
        raise UserError(f"{where(int(np.argmin(lengths)))}: this text has no tokens; remove the row")
    return Encoded(concatenated(parts, tokenizer), offsets_of(lengths), truncated, cut)


def _not_encodable(
    tokenizer: PreTrainedTokenizerFast, batch: list[Any], error: Exception, where: Callable[[int], str]
) -> Exception:
    """An error that names the text the tokenizer cannot encode."""
    for index, text in enumerate(text if isinstance(text, str) else " ".join(text) for text in batch):
        try:
            tokenizer.backend_tokenizer.encode(text)
        except Exception:
            known = set(tokenizer.get_vocab())
            symbol = next((word for word in text.split() if word not in known), text)
            return UserError(f"{where(index)}: the tokenizer does not know {symbol!r} ({error}); choose another one")
    return error


def _encode_symbols(
    tokenizer: PreTrainedTokenizerFast, unit: str, texts: Sequence[str], max_length: int | None
) -> Encoded:
    """Encode bytes or characters with a table lookup, a hundred times faster than the library's model."""
    table = _symbol_table(tokenizer, unit)
    codec, code_type = ("utf-8", np.uint8) if unit == "byte" else ("utf-32-le", np.uint32)
    start = np.array([tokenizer.cls_token_id], dtype=table.dtype)
    lengths, parts, truncated, cut = np.zeros(len(texts), dtype=np.int64), [], 0, 0
    for index, text in enumerate(texts):
        codes = np.frombuffer(text.encode(codec), dtype=code_type)
        kept = codes if max_length is None else codes[: max_length - 1]
        truncated += len(kept) < len(codes)
        cut += len(codes) - len(kept)
        lengths[index] = 1 + len(kept)
        parts += [start, table[kept]]
    return Encoded(concatenated(parts, tokenizer), offsets_of(lengths), truncated, cut)


def _symbol_table(tokenizer: PreTrainedTokenizerFast, unit: str) -> np.ndarray:
    """The id of each byte, or of each Unicode code point."""
    kind = id_type(len(tokenizer))
    if unit == "byte":
        return np.arange(FIRST_BYTE, 256 + FIRST_BYTE, dtype=kind)
    table = np.full(0x110000, tokenizer.unk_token_id, dtype=kind)
    for token, index in tokenizer.get_vocab().items():
        if len(token) == 1:
            table[ord(token)] = index
    return table


def unknown_count(tokenizer: PreTrainedTokenizerFast, ids: np.ndarray) -> int:
    """The number of unknown tokens; 0 for a tokenizer without an unknown token."""
    return int((ids == tokenizer.unk_token_id).sum()) if tokenizer.unk_token else 0


def concatenated(parts: list[np.ndarray], tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=id_type(len(tokenizer)))


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
