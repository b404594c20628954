"""Labels for a stream of texts, in its order and in constant memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..core.errors import UserError
from ..data.batching import Batches, padded
from ..data.encoding import encode
from ..runs.folder import class_names, load_run_model, load_run_tokenizer
from .windows import windows


@dataclass(frozen=True)
class Prediction:
    """A text, and the probability of each class."""

    text: str
    labels: list[str]
    probabilities: list[float]

    @property
    def best(self) -> int:
        return int(np.argmax(self.probabilities))

    @property
    def label(self) -> str:
        return self.labels[self.best]

    @property
    def probability(self) -> float:
        return self.probabilities[self.best]


class Predictor:
    """The classifier of a run folder."""

    def __init__(self, folder: str | Path, *, batch_tokens: int = 8192, device: str | None = None):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = load_run_model(Path(folder)).to(self.device)
        self.tokenizer = load_run_tokenizer(Path(folder))
        config = self.model.config
        if config.is_encoder_decoder:
            raise UserError(f"{folder} translates and does not classify: use `transevolve translate`")
        self.labels = class_names(self.model)
        self.max_length = config.max_position_embeddings
        self.batch_tokens = batch_tokens
        self.truncated = 0

    def stream(self, texts: Iterable[tuple[int, str]], source: str, window: int = 1024) -> Iterator[Prediction]:
        """Predictions for (line number, text), as they come; `source` names them in errors."""
        for items in windows(texts, window):
            yield from self._window(items, source)

    def __call__(self, texts: Iterable[str]) -> list[Prediction]:
        return list(self.stream(enumerate(texts, start=1), "text"))

    @torch.inference_mode()
    def _window(self, items: list[tuple[int, str]], source: str) -> list[Prediction]:
        texts = [text for _, text in items]
        encoded = encode(self.tokenizer, texts, self.max_length, lambda i: f"{source}, line {items[i][0]}")
        self.truncated += encoded.truncated
        rows = [encoded.ids[a:b] for a, b in zip(encoded.offsets, encoded.offsets[1:], strict=False)]
        found = np.zeros((len(rows), len(self.labels)))
        batches = Batches([len(row) for row in rows], tokens=self.batch_tokens, shuffle=False)
        for batch in batches:
            ids, mask = padded([rows[i] for i in batch], self.tokenizer.pad_token_id or 0)
            logits = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device)).logits
            found[batch] = torch.softmax(logits.float(), -1).cpu().numpy()
        return [Prediction(t, self.labels, p) for t, p in zip(texts, found.tolist(), strict=True)]
