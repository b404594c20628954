"""Token classification, such as named entities and parts of speech."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoModelForTokenClassification, PreTrainedConfig

from ..config.learning import TAG_PATIENCE
from ..data import TextData
from ..data.batching import IGNORED, RowStore
from ..data.conll import TOKENS, join_words
from ..data.registry import Task
from ..data.tags import OUTSIDE, USES, TaggedTask, encode_words
from ..metrics.tags import TagScores, tag_scores
from .base import PIPELINE, Prediction, Score, Table, Where, class_rows
from .encoder import LabelledKind
from .session import Session

if TYPE_CHECKING:
    from datasets import Dataset

IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORDS = re.compile(rf"[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")
OPENING, CLOSING = r"(\[{<\"'«\u201c\u2018", r")\]}>\"'»\u201d\u2019.,;:!?\u2026\u3002\u3001"
AFFIXES = re.compile(rf"^([{OPENING}]*)(.*?)([{CLOSING}]*)$", re.DOTALL)


@dataclass(frozen=True)
class TagScore(Score):
    found: TagScores

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "classes": [asdict(score) for score in self.found.classes]}

    def tables(self) -> list[Table]:
        what = "entity" if self.found.entities else "tag"
        title = f"F1 {self.found.f1:.4f}, accuracy of words {self.found.accuracy:.4f}"
        return [Table(title, [what, "precision", "recall", "F1", "count"], class_rows(self.found.classes))]


@dataclass(frozen=True)
class TagPrediction(Prediction):
    words: list[str]
    tags: list[str]

    def line(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {"text": self.text, "tokens": self.words, "tags": self.tags}


class Tokens(LabelledKind):
    name = TOKENS
    noun = "a tagger"
    tasks: ClassVar[Mapping[str, Task]] = {
        TOKENS: Task(
            "words with a tag each: CoNLL files, or jsonl with tokens and tags", USES, TaggedTask().load, TOKENS
        )
    }
    metrics: ClassVar[Mapping[str, bool]] = {
        "f1": True,
        "precision": True,
        "recall": True,
        "accuracy": True,
        "loss": False,
    }
    refused: ClassVar[Mapping[str, str]] = {"training.class_weights": "applies to classes of texts, not to tags"}
    patience = TAG_PATIENCE
    head = "ForTokenClassification"
    auto_class = AutoModelForTokenClassification
    pipeline_tag = "token-classification"
    example = (
        PIPELINE + 'tag = pipeline("token-classification", model={name}, aggregation_strategy="first")\ntag("a text")'
    )

    def sample_labels(self, ids: Tensor, config: PreTrainedConfig) -> dict[str, Any]:
        return {"labels": ids % (config.num_labels or 1)}

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> TagScore:
        found: dict[int, list[int]] = {}
        sums = np.zeros(2)
        with session.inference():
            for numbers, batch in session.batches(RowStore(rows), self.collator(session)):
                labels = batch.pop("labels")
                logits, real = session.model(**batch).logits.float(), labels != IGNORED
                sums += [float(cross_entropy(logits[real], labels[real], reduction="sum")), int(real.sum())]
                best = logits.argmax(-1)
                found |= {n: best[place][real[place]].tolist() for place, n in enumerate(numbers) if n >= 0}
        total, count = np.sum(session.gather(sums), axis=0)
        answers = {number: row for share in session.gather(found) for number, row in share.items()}
        names = self.labels(session.model.config)
        truth = [[label for label in row if label != IGNORED] for row in rows["labels"][:]]
        return self.assess(
            truth, [answers[number] for number in range(len(truth))], names, float(total / max(count, 1))
        )

    def assess(
        self, truth: Sequence[Sequence[int]], found: Sequence[Sequence[int]], names: list[str], loss: float
    ) -> TagScore:
        true_tags, found_tags = ([[names[tag] for tag in row] for row in rows] for rows in (truth, found))
        scored = tag_scores(true_tags, found_tags, names)
        metrics = {name: getattr(scored, name) for name in ("f1", "precision", "recall", "accuracy")}
        return TagScore({"loss": loss, **metrics}, len(truth), scored)

    def baseline(self, data: TextData) -> dict[str, dict[str, float]]:
        """Predict the most frequent tag for every word."""
        assert data.train is not None
        splits = {name: data.split(name) for name in ("train", "validation", "test")}
        tags = {
            name: [[tag for tag in row if tag != IGNORED] for row in rows["labels"][:]]
            for name, rows in splits.items()
            if rows is not None
        }
        counts = np.bincount(np.concatenate(tags.pop("train")), minlength=len(data.labels))
        shares, best = np.maximum(counts / counts.sum(), 1e-12), int(counts.argmax())
        found = {}
        for name, truth in tags.items():
            loss = float(-np.log(shares[np.concatenate(truth)]).mean())
            found[name] = self.assess(truth, [[best] * len(row) for row in truth], data.labels, loss).metrics
        return found

    def predict(
        self, session: Session, texts: Sequence[str | Sequence[str]], where: Where, **options: Any
    ) -> list[TagPrediction]:
        """A text is split into words, unless it is a list of words."""
        words = [split_words(text) if isinstance(text, str) else list(text) for text in texts]
        encoded, places = encode_words(session.tokenizer, [join_words(row) for row in words], session.max_length, where)
        session.truncated += encoded.truncated
        found: dict[int, list[int]] = {}
        with session.inference():
            for numbers, batch in session.batches(RowStore({"input_ids": encoded.rows()}), self.collator(session)):
                best = session.model(**batch).logits.argmax(-1).cpu().numpy()
                found |= {number: best[place].tolist() for place, number in enumerate(numbers)}
        names = self.labels(session.model.config)
        unseen = names.index(OUTSIDE) if OUTSIDE in names else 0
        predictions = []
        for number, row in enumerate(words):
            tags = [names[found[number][place] if place >= 0 else unseen] for place in places[number][: len(row)]]
            text = texts[number]
            predictions.append(TagPrediction(text if isinstance(text, str) else " ".join(text), row, tags))
        return predictions

    def description(self, config: PreTrainedConfig) -> str:
        return f"tags the words of a text with {config.num_labels} tags"


def split_words(text: str) -> list[str]:
    """Split at white space, and separate punctuation at the ends of words, ideographs and kana."""
    found: list[str] = []
    for word in WORDS.findall(text):
        parts = AFFIXES.match(word)
        before, inside, after = parts.groups() if parts else ("", word, "")
        if after.startswith(".") and "." in inside:
            inside, after = f"{inside}.", after[1:]
        found += [*before, *([inside] if inside else []), *after]
    return found
