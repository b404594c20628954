"""Translation: token loss, and BLEU and chrF of beam search."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, PreTrainedConfig

from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import write_atomically
from ..data import DataOptions, TextData
from ..data.batching import IGNORED, Batches, Collator, RowStore, padded
from ..data.views import column_views
from ..decoding import BeamOptions, beam_search
from ..models.loss import smoothed_cross_entropy
from .bag_settings import decided_without_bag
from .base import Kind, LossFunction, Prediction, Score, Table, Where
from .session import Session
from .systems import TRANSLATES

if TYPE_CHECKING:
    from datasets import Dataset

    from ..metrics.bleu import TranslationScore

EXAMPLE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained({name}), AutoTokenizer.from_pretrained({name})
batch = tokenizer(["a text"], return_tensors="pt")
tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)"""


@dataclass(frozen=True)
class Translated:
    """A translation and its score, the length-penalized log-probability."""

    text: str
    score: float


@dataclass(frozen=True)
class TranslationPrediction(Prediction):
    """Up to `n_best` translations of a sentence, best first."""

    translations: list[Translated]
    n_best: int = 1

    def line(self) -> str:
        """`n_best` lines; missing translations are empty lines."""
        lines = [" ".join(translated.text.splitlines()) for translated in self.translations]
        return "\n".join([*lines, *[""] * (self.n_best - len(lines))])

    def row(self) -> dict[str, Any]:
        best = self.translations[0]
        return {"text": self.text, "translation": best.text, "score": best.score}

    def as_dict(self) -> dict[str, Any]:
        listed = [{"text": translated.text, "score": translated.score} for translated in self.translations]
        return {"source": self.text, "translations": listed}


@dataclass(frozen=True)
class TranslationScores(Score):
    found: "TranslationScore"
    translations: list[str]
    references: list[str]
    beams: int

    def as_dict(self) -> dict[str, Any]:
        return {"loss": self.metrics["loss"], **self.found.as_dict()}

    def tables(self) -> list[Table]:
        rows = [
            ["BLEU", f"{self.found.bleu:.2f}", self.found.signature_bleu],
            ["BLEU, lower-cased", f"{self.found.bleu_lowercase:.2f}", self.found.signature_bleu.replace("mixed", "lc")],
            ["chrF2", f"{self.found.chrf:.2f}", self.found.signature_chrf],
        ]
        return [Table(f"{self.rows:,} sentences, beam {self.beams}", ["metric", "score", "signature"], rows)]

    def write(self, folder: Path, name: str) -> list[Path]:
        path = folder / f"{name}.translations.txt"
        write_atomically(path, "".join(f"{' '.join(text.splitlines())}\n" for text in self.translations))
        return [path]

    def compare(self, other: Score, names: tuple[str, str]) -> tuple[dict[str, Any], Table]:
        from ..metrics.bleu import compare

        if not isinstance(other, TranslationScores) or other.references != self.references:
            raise UserError(f"{names[0]} and {names[1]} have different references: give --source and --reference")
        found = compare(self.translations, other.translations, self.references).as_dict()
        cells = [
            [
                metric,
                f"{d['a']:.2f} ± {d['margin_a']:.2f}",
                f"{d['b']:.2f} ± {d['margin_b']:.2f}",
                f"{d['p_value']:.4f}",
            ]
            for metric, d in found.items()
        ]
        return found, Table("Paired bootstrap", ["metric", *names, "p"], cells)


class Translation(Kind):
    name = "translation"
    noun = "a translation model"
    command = "translate"
    defaults: ClassVar[Mapping[str, Any]] = {"training.beta2": 0.98, "training.eps": 1e-9, "model.label_smoothing": 0.1}
    metrics: ClassVar[Mapping[str, bool]] = {"bleu": True, "loss": False, "bleu_lowercase": True, "chrf": True}
    scored_alike = False
    evaluation_options = frozenset({"source", "reference", "against"})
    head = TRANSLATES
    auto_class = AutoModelForSeq2SeqLM
    pipeline_tag = "translation"
    example = EXAMPLE

    def fits(self, config: PreTrainedConfig) -> bool:
        return bool(config.is_encoder_decoder)

    def evaluation_data(self, trained: DataOptions, files: Mapping[str, Any]) -> tuple[str, DataOptions] | None:
        source, reference = files.get("source"), files.get("reference")
        if (source is None) != (reference is None):
            raise UserError("--source and --reference belong together: give both, or neither for a split of the data")
        if source is None:
            return None
        kept = DataOptions(task="translation", max_length=trained.max_length)
        return Path(source).name, replace(kept, test_source=source, test_target=reference)

    def check_vocabulary(self, recipe: Recipe, size: int) -> None:
        beams = max(recipe.training.beams, recipe.training.eval_beams)
        if 2 * beams > size:
            raise UserError(f"{beams} beams need a vocabulary of at least {2 * beams} tokens, but it has {size}")

    def decide(self, recipe: Recipe, data: TextData) -> Mapping[str, Any]:
        """A named variant uses the paper's initialization; otherwise matrices are small, as in Marian."""
        return decided_without_bag(recipe, self.noun, "small" if recipe.model.variant is None else "authors")

    def notes(self, recipe: Recipe, data: TextData) -> list[str]:
        limit, rows = recipe.training.eval_sentences, 0 if data.validation is None else len(data.validation)
        if not 0 < limit < rows:
            return []
        return [f"validation in training decodes {limit:,} of {rows:,} sentences (training.eval_sentences)"]

    def loss(self, recipe: Recipe, data: TextData) -> LossFunction | None:
        """The paper's loss, for other systems; TransEvolve computes it in the model."""
        if recipe.model.is_ours:
            return None
        smoothing = recipe.model.label_smoothing or 0.0

        def loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
            return smoothed_cross_entropy(outputs.logits, labels, smoothing, num_items_in_batch)

        return loss

    def collator(self, session: Session) -> Collator:
        return Collator(session.pad, session.model.config.decoder_start_token_id)

    def score(self, session: Session, rows: "Dataset", *, final: bool = True, **options: Any) -> TranslationScores:
        """During training, decode `training.eval_sentences` rows with `training.eval_beams` beams."""
        from ..metrics.bleu import score

        training = session.recipe.training
        search = options.get("search") or run_search(session.recipe)
        loss = token_loss(session, RowStore(rows), self.collator(session))
        if not final:
            search = replace(search, beams=training.eval_beams)
            if 0 < training.eval_sentences < len(rows):
                rows = rows.select(np.linspace(0, len(rows) - 1, training.eval_sentences).round().astype(int))
        sources = column_views(rows, "input_ids")
        share = [sources[number] for number in range(session.process, len(sources), session.processes)]
        found = translate_ids(session, share, search, session.batch_tokens // search.beams)
        texts = [""] * len(rows)
        for process, part in enumerate(session.gather([translations[0].text for translations in found])):
            texts[process :: session.processes] = part
        references = references_of(session, rows)
        scored = score(texts, references)
        metrics = {"loss": loss, "bleu": scored.bleu, "bleu_lowercase": scored.bleu_lowercase, "chrf": scored.chrf}
        return TranslationScores(metrics, len(texts), scored, texts, references, search.beams)

    def predict(
        self, session: Session, texts: Sequence[str], where: Where, **options: Any
    ) -> list[TranslationPrediction]:
        search = options.get("search") or run_search(session.recipe)
        found = translate_ids(session, session.encode(texts, where).rows(), search, session.batch_tokens)
        return [TranslationPrediction(*pair, search.n_best) for pair in zip(texts, found, strict=True)]

    def description(self, config: PreTrainedConfig) -> str:
        return "translates"


def run_search(recipe: Recipe, **changes: Any) -> BeamOptions:
    """The search of a recipe, with changes by the names of `translate`'s options; None keeps a value."""
    training = recipe.training
    asked = {"beam": training.beams, "length_penalty": BeamOptions.alpha, "extra_length": training.extra_length}
    asked |= {"n_best": 1} | {name: value for name, value in changes.items() if value is not None}
    for name in ("beam", "extra_length", "n_best"):
        if asked[name] < 1:
            raise UserError(f"--{name} must be at least 1, not {asked[name]}")
    if asked["n_best"] > asked["beam"]:
        raise UserError(
            f"--n_best {asked['n_best']} needs at least as many beams: increase --beam, which is {asked['beam']}"
        )
    if not 0 <= asked["length_penalty"] < math.inf:
        raise UserError(f"--length_penalty must be a number of at least 0, not {asked['length_penalty']}")
    return BeamOptions(asked["beam"], asked["length_penalty"], asked["extra_length"], n_best=asked["n_best"])


def translate_ids(
    session: Session, sources: Sequence[Sequence[int] | np.ndarray], search: BeamOptions, batch_tokens: int
) -> list[list[Translated]]:
    """The n best translations of each source; a source without text has an empty translation."""
    tokenizer, model = session.tokenizer, session.model
    found: list[list[Translated]] = [[Translated("", 0.0)] for _ in sources]
    special = len(tokenizer("")["input_ids"])
    filled = [number for number, ids in enumerate(sources) if len(ids) > special]
    session.advance(len(sources) - len(filled))
    with session.inference():
        for batch in Batches([len(sources[i]) for i in filled], tokens=max(batch_tokens, 1), shuffle=False):
            ids, mask = padded([sources[filled[i]] for i in batch], session.pad)
            beams = beam_search(model, ids.to(session.device), mask.to(session.device), search)
            for place, hypotheses in zip(batch, beams, strict=True):
                texts = tokenizer.batch_decode([h.ids for h in hypotheses], skip_special_tokens=True)
                pairs = zip(texts, hypotheses, strict=True)
                found[filled[place]] = [Translated(text, hypothesis.score) for text, hypothesis in pairs]
            session.advance(len(batch))
    return found


def token_loss(session: Session, rows: RowStore, collate: Collator) -> float:
    """Cross entropy per target token, without smoothing."""
    session, sums = session.with_logits(), np.zeros(2)
    with session.inference():
        for _, batch in session.batches(rows, collate):
            labels = batch.pop("labels")
            real = int((labels != IGNORED).sum())
            if real:
                sums += [float(smoothed_cross_entropy(session.model(**batch).logits, labels, 0.0, 1)), real]
    total = np.sum(session.gather(sums), axis=0)
    return float(total[0] / total[1])


def references_of(session: Session, rows: "Dataset") -> list[str]:
    """The target texts; for training rows, they are decoded from the tokens."""
    if "target" in rows.column_names:
        return list(rows["target"][:])
    return session.tokenizer.batch_decode(rows["labels"][:], skip_special_tokens=True)
