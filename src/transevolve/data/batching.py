"""Batches of similar lengths, by number of rows or tokens, independent of the number of processes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ..models.inputs import shift_right
from .views import column_views

STEPS = 16
IGNORED = -100
LARGEST_DEFAULT_BATCH = 4096


def rounded_lengths(lengths: np.ndarray) -> np.ndarray:
    """Lengths rounded up by at most about 1/16; rows of the same rounded length are shuffled into batches together."""
    unit = np.maximum(1, 2 ** np.floor(np.log2(np.maximum(lengths, 1) / STEPS))).astype(np.int64)
    return np.maximum(-(-lengths // unit) * unit, 1)


class Batches(Sampler[list[int]]):
    """The batches of an epoch, divided into the parts of one process.

    Rows are shuffled, sorted by rounded length, and divided into batches of at most `rows` rows or `tokens` tokens,
    padding included; then the batches are shuffled. The number of batches is the same in every epoch, because it
    depends only on the rounded lengths. The rows of a batch are distributed over `processes * parts` parts. If there
    are fewer rows than parts, the rest of the parts get a filler: a row number `~i`, whose labels are ignored.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        *,
        rows: int | None = None,
        tokens: int | None = None,
        parts: int = 1,
        process: int = 0,
        processes: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ):
        if (rows is None) == (tokens is None):
            raise ValueError("give either rows or tokens")
        self.rounded = rounded_lengths(np.asarray(lengths, dtype=np.int64))
        self.rows, self.tokens = rows, tokens
        self.parts, self.process, self.processes = parts, process, processes
        self.seed, self.shuffle = seed, shuffle
        self.epoch = 0
        self._count = len(self._bounds(np.sort(self.rounded, kind="stable")[::-1]))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self._count * self.parts

    def whole(self) -> list[np.ndarray]:
        """The batches of this epoch, for all processes."""
        random = np.random.default_rng([self.seed, self.epoch])
        order = random.permutation(len(self.rounded)) if self.shuffle else np.arange(len(self.rounded))
        order = order[np.argsort(-self.rounded[order], kind="stable")]
        batches = [order[start:end] for start, end in self._bounds(self.rounded[order])]
        if self.shuffle:
            batches = [batches[i] for i in random.permutation(len(batches))]
        return batches

    def largest(self) -> tuple[int, int]:
        """The rows, and tokens per row, of the batch that needs most memory for attention."""
        shapes = [(end - start, length) for start, end, length in self._shapes()]
        return max(shapes, key=lambda shape: (shape[0] * shape[1] ** 2, shape[0]))

    def __iter__(self) -> Iterator[list[int]]:
        stride = self.parts * self.processes
        for batch in self.whole():
            for part in range(self.parts):
                dealt = batch[part * self.processes + self.process :: stride].tolist()
                yield dealt or [~int(batch[0])]

    def _shapes(self) -> list[tuple[int, int, int]]:
        ordered = np.sort(self.rounded, kind="stable")[::-1]
        return [(start, end, int(ordered[start])) for start, end in self._bounds(ordered)]

    def _bounds(self, ordered: np.ndarray) -> list[tuple[int, int]]:
        """The bounds of each batch in rows sorted from long to short."""
        bounds, start = [], 0
        while start < len(ordered):
            size = self.rows if self.rows is not None else max(1, (self.tokens or 1) // int(ordered[start]))
            end = min(start + size, len(ordered))
            bounds.append((start, end))
            start = end
        return bounds


class RowStore(Dataset):
    """Rows by number, memory-mapped if the data are; `~i` is row i with labels that the loss ignores.

    The data are a `datasets.Dataset` or a mapping of names to sequences.
    """

    def __init__(self, data: Any):
        available = data if isinstance(data, Mapping) else data.column_names
        names = [name for name in ("input_ids", "labels", "length") if name in available]
        views = {name: data[name] if isinstance(data, Mapping) else column_views(data, name) for name in names}
        self.columns: dict[str, Any] = {name: view for name, view in views.items() if name != "length"}
        if "length" in views:
            self.lengths: np.ndarray = np.asarray(views["length"].array())
        else:
            self.lengths = np.array([len(ids) for ids in self.columns["input_ids"]], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.columns["input_ids"])

    def __getitem__(self, number: int) -> dict[str, Any]:
        row = {name: values[number if number >= 0 else ~number] for name, values in self.columns.items()}
        if number < 0 and "labels" in row:
            labels = row["labels"]
            row["labels"] = [IGNORED] * len(labels) if isinstance(labels, list | np.ndarray) else IGNORED
        return row


class Collator:
    """Pads rows on the right to the longest row; labels are classes, or token ids padded with -100.

    If `start`, the decoder's start token, is given, the targets shifted right are the decoder's input.
    """

    def __init__(self, pad_token_id: int, start: int | None = None):
        self.pad_token_id, self.start = pad_token_id, start

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch, for batches that depend on it."""

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        input_ids, mask = padded([row["input_ids"] for row in rows], self.pad_token_id)
        batch: dict[str, Any] = {"input_ids": input_ids, "attention_mask": mask}
        labels = [row["labels"] for row in rows if "labels" in row]
        if labels:
            batch["labels"] = self.labels(labels)
            if self.start is not None:
                batch["decoder_input_ids"] = shift_right(batch["labels"], self.pad_token_id, self.start)
        return batch

    def labels(self, labels: list[Any]) -> torch.Tensor:
        return padded(labels, IGNORED)[0] if isinstance(labels[0], list | np.ndarray) else torch.tensor(labels)


def padded(sequences: Sequence[Sequence[int] | np.ndarray], value: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences as one padded matrix with at least one column, and the mask of its real entries."""
    longest = max(1, *map(len, sequences))
    ids = np.full((len(sequences), longest), value, dtype=np.int64)
    mask = np.zeros((len(sequences), longest), dtype=np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


class BatchLoader(DataLoader):
    """A loader that passes the epoch on to its batches."""

    def __init__(self, data: Dataset, batches: Batches, collate: Collator, workers: int = 0):
        super().__init__(
            data,
            batch_sampler=batches,
            collate_fn=collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),
        )

    def set_epoch(self, epoch: int) -> None:
        assert isinstance(self.batch_sampler, Batches)
        self.batch_sampler.set_epoch(epoch)
        if isinstance(self.collate_fn, Collator):
            self.collate_fn.set_epoch(epoch)


def default_tokens(lengths: Sequence[int] | np.ndarray) -> int:
    """The default batch size in tokens: a hundred steps per epoch, and at least eight rows."""
    found = np.asarray(lengths, dtype=np.int64)
    return min(LARGEST_DEFAULT_BATCH, max(int(found.sum()) // 100, 8 * int(found.max())))
