"""The translation model of a run folder, for a stream of sentences."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from ..core.errors import UserError
from ..data.encoding import encode
from ..decoding import BeamOptions
from ..decoding.translator import Translated, translate_ids
from ..runs.folder import load_run_model, load_run_recipe, load_run_tokenizer
from .windows import windows


def run_search(folder: Path) -> BeamOptions:
    """The search that a run's recipe scores by."""
    training = load_run_recipe(folder).training
    return BeamOptions(beams=training.beams, extra_length=training.extra_length)


class Translator:
    """Translates with the model of a run, and if nothing is said with the search of its recipe."""

    def __init__(self, folder: str | Path, search: BeamOptions | None = None, *, batch_tokens: int = 1024):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = load_run_model(Path(folder)).to(self.device)
        if not self.model.config.is_encoder_decoder:
            raise UserError(f"{folder} is a classifier and does not translate: use `transevolve predict`")
        self.tokenizer = load_run_tokenizer(Path(folder))
        self.max_length = self.tokenizer.model_max_length
        self.search = search or run_search(Path(folder))
        self.batch_tokens = batch_tokens
        self.truncated = self.done = 0
        self.started = time.perf_counter()

    def stream(
        self, texts: Iterable[tuple[int, str]], source: str, window: int = 512
    ) -> Iterator[tuple[str, list[Translated]]]:
        """Each sentence of (line number, sentence) with its translations, as they come; `source` is for errors."""
        for items in windows(texts, window):
            sentences = [text for _, text in items]
            encoded = encode(
                self.tokenizer, sentences, self.max_length, lambda i, items=items: f"{source}, line {items[i][0]}"
            )
            self.truncated += encoded.truncated
            rows = [encoded.ids[a:b] for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)]
            found = translate_ids(self.model, self.tokenizer, rows, self.search, self.batch_tokens)
            self.done += len(sentences)
            yield from zip(sentences, found, strict=True)

    def __call__(self, texts: Iterable[str]) -> list[list[Translated]]:
        return [found for _, found in self.stream(enumerate(texts, start=1), "text")]

    def rate(self) -> float:
        """Sentences a second so far."""
        return self.done / max(time.perf_counter() - self.started, 1e-9)
