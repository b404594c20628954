"""`OnnxTranslator`: translates with an exported encoder and decoder step."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from ..core.errors import UserError
from ..core.progress import Bar, progress_of
from . import DECODER, ENCODER, FACTS, TOKENIZER
from .beam import Hypothesis, Search, beam_search

OrtValue = onnxruntime.OrtValue


@dataclass(frozen=True)
class OnnxTranslation:
    """The translations of a sentence, at most `n_best`, best first."""

    text: str
    translations: list[tuple[str, float]]
    n_best: int

    def line(self) -> str:
        lines = [" ".join(text.splitlines()) for text, _ in self.translations]
        return "\n".join([*lines, *[""] * (self.n_best - len(lines))])

    def as_dict(self) -> dict[str, Any]:
        return {"source": self.text, "translations": [{"text": t, "score": s} for t, s in self.translations]}


class OnnxTranslator:
    """A translator exported with `transevolve export RUN --format onnx`.

    Args:
        folder: The exported folder.
        threads: Threads of onnxruntime; 0 is its default.
        batch_tokens: Source tokens per batch, including padding.
    """

    columns = None

    def __init__(self, folder: str | Path, threads: int = 0, batch_tokens: int = 1024):
        folder = Path(folder)
        for name in (FACTS, ENCODER, DECODER, TOKENIZER):
            if not (folder / name).is_file():
                raise UserError(f"{folder} is not an exported translator: it has no {name}; see transevolve export")
        self.facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        self.batch_tokens, self.truncated = batch_tokens, 0
        self.advance: Callable[[int], None] = lambda count: None
        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self.tokenizer.encode_special_tokens = True
        self.tokenizer.enable_truncation(self.max_length)
        self.tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or int(os.environ.get("OMP_NUM_THREADS", 0))
        providers = ["CPUExecutionProvider"]
        self.encoder = onnxruntime.InferenceSession(str(folder / ENCODER), options, providers=providers)
        self.decoder = onnxruntime.InferenceSession(str(folder / DECODER), options, providers=providers)

    @property
    def max_length(self) -> int:
        return self.facts["max_length"]

    def progress(self, title: str, total: int | None, unit: str = "sentences") -> AbstractContextManager[Bar]:
        """Shows the number of translated sentences."""
        return progress_of(self, title, total, unit)

    def search(self, **changes: Any) -> Search:
        """Returns the recipe's search options with changes, which have the names of `transevolve translate`'s flags."""
        options = {**self.facts["search"], **{name: value for name, value in changes.items() if value is not None}}
        beam, n_best, most = options["beam"], options["n_best"], self.facts["most_beams"]
        if not 1 <= beam <= most:
            raise UserError(f"--beam must be 1 to {most} in an exported model, not {beam}")
        if not 1 <= n_best <= beam:
            raise UserError(f"--n_best must be 1 to --beam, which is {beam}, not {n_best}")
        if options["extra_length"] < 1 or not 0 <= options["length_penalty"] < float("inf"):
            raise UserError("--extra_length must be at least 1, and --length_penalty a number of at least 0")
        return Search(beam, options["length_penalty"], options["extra_length"], n_best)

    def translate(self, texts: Sequence[str], **search: Any) -> list[OnnxTranslation]:
        """Returns the translations of each sentence, in order."""
        return self.answer(list(enumerate(texts, start=1)), "texts", self.search(**search))

    def answer(self, items: Sequence[tuple[int, str]], source: str, search: Search) -> list[OnnxTranslation]:
        """Returns the translations of a window of (line number, text)."""
        texts = [text for _, text in items]
        found = self.translate_ids(self.encode(texts), search)
        decoded = [[(self.tokenizer.decode(h.ids), h.score) for h in own] or [("", 0.0)] for own in found]
        return [OnnxTranslation(text, own, search.n_best) for text, own in zip(texts, decoded, strict=True)]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token ids, truncated to the maximum length; an empty list for a text without tokens."""
        special = len(self.tokenizer.encode("").ids)
        found = self.tokenizer.encode_batch_fast(list(texts))
        self.truncated += sum(bool(encoding.overflowing) for encoding in found)
        return [encoding.ids if len(encoding.ids) > special else [] for encoding in found]

    def translate_ids(self, sources: Sequence[Sequence[int]], search: Search) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each source; none for an empty source."""
        found: list[list[Hypothesis]] = [[] for _ in sources]
        facts = self.facts
        for batch in self._batches(sources):
            lengths = np.array([len(sources[i]) for i in batch])
            ids = np.full((len(batch), lengths.max()), facts["pad"], np.int64)
            for row, i in enumerate(batch):
                ids[row, : lengths[row]] = sources[i]
            mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
            decoder = OnnxStep(self, ids, mask)
            for i, own in zip(batch, beam_search(decoder, lengths, facts["start"], facts["ends"], search), strict=True):
                found[i] = own
            self.advance(len(batch))
        return found

    def _batches(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yields batches of sources of similar length, longest first."""
        order = sorted((i for i, ids in enumerate(sources) if len(ids)), key=lambda i: -len(sources[i]))
        while order:
            size = max(1, self.batch_tokens // len(sources[order[0]]))
            yield order[:size]
            order = order[size:]


class OnnxStep:
    """The decoder of a batch of sentences and its past, which is not copied when beams are reordered.

    The past of all beams of a sentence is stored together: time `t` of beam `b` in slot `t * beams + b`. The past of
    beam `b` of sentence `s` at time `t` is that of beam `lineage[s, b, t]`.
    """

    def __init__(self, translator: OnnxTranslator, ids: np.ndarray, mask: np.ndarray):
        self.session, facts = translator.decoder, translator.facts
        inputs = {"input_ids": _ort(ids), "attention_mask": _ort(mask)}
        names = [output.name for output in translator.encoder.get_outputs()]
        outputs = translator.encoder.run_with_ort_values(names, inputs)
        self.source = dict(zip(names, outputs, strict=True))
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.past = {name: _ort(np.zeros(self._shape(shape, len(ids)), np.float32)) for name, shape in facts["past"]}
        self.slots = {name: shape.index("slots") for name, shape in facts["past"]}
        self.length, self.lineage = 0, np.zeros((len(ids), 1, 0), np.int64)

    @staticmethod
    def _shape(shape: list[int | str], sentences: int) -> list[int]:
        named = {"sentences": sentences, "slots": 0}
        return [named[size] if isinstance(size, str) else size for size in shape]

    def advance(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sentences, beams = tokens.shape
        places = np.arange(beams)
        new = np.broadcast_to(places[:, None], (sentences, beams, 1))
        self.lineage = np.concatenate([self.lineage, new], 2)
        visible = (self.lineage[..., None] == places).reshape(sentences, beams, -1)
        inputs = {
            "tokens": _ort(tokens.astype(np.int64)),
            "position": _ort(np.array([self.length])),
            "visible": _ort(visible),
        }
        values, ids, *present = self.session.run_with_ort_values(self.outputs, {**inputs, **self.source, **self.past})
        self.past = dict(zip(self.past, present, strict=True))
        self.length += 1
        return values.numpy(), ids.numpy()

    def reorder(self, parents: np.ndarray) -> None:
        beams = parents.shape[1]
        if self.lineage.shape[1] != beams:
            for name, value in self.past.items():
                self.past[name] = _ort(np.repeat(value.numpy(), beams, self.slots[name]))
            self.lineage = np.arange(beams)[:, None].repeat(self.length, 1)[None].repeat(len(parents), 0)
        self.lineage = np.take_along_axis(self.lineage, parents[..., None], 1)

    def select(self, sentences: np.ndarray) -> None:
        self.past = {name: _ort(value.numpy()[sentences]) for name, value in self.past.items()}
        self.source = {name: _ort(value.numpy()[sentences]) for name, value in self.source.items()}
        self.lineage = self.lineage[sentences]


def _ort(array: np.ndarray) -> OrtValue:
    return OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
