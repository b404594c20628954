"""A saved model scored again: on a split of its data, on another labelled file, or on two aligned files."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import PreTrainedModel

from ..core.errors import UserError
from ..data import DataOptions, TextData, iter_texts, load_data
from ..data.options import Split
from ..decoding import BeamOptions
from ..kinds.jobs import Translation, job_of, resolve
from ..metrics import TranslationScore, score
from ..metrics.classification import Classification, classify, scoring_loader
from ..runs.averaging import last_checkpoints
from ..runs.folder import check_run, class_names, load_model, load_run_model, load_run_recipe, load_run_tokenizer
from .translator import Translator


@dataclass(frozen=True)
class Evaluation:
    """The score of a classifier on one set of rows.

    Args:
        name: The split's name, or the file's.
    """

    name: str
    found: Classification
    labels: list[str]
    report_lines: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": self.name,
            "count": self.found.rows,
            **self.found.metrics(self.labels),
            "classes": [asdict(score) for score in self.found.by_class(self.labels)],
            "confusion": self.found.confusion.tolist(),
        }

    def class_table(self) -> tuple[list[str], list[list[str]]]:
        scores = self.found.by_class(self.labels)
        rows = [[s.label, f"{s.precision:.4f}", f"{s.recall:.4f}", f"{s.f1:.4f}", f"{s.rows:,}"] for s in scores]
        return ["class", "precision", "recall", "F1", "rows"], rows

    def confusion_table(self) -> tuple[list[str], list[list[str]]]:
        counts = [[f"{count:,}" for count in row] for row in self.found.confusion.tolist()]
        return ["", *self.labels], [[label, *row] for label, row in zip(self.labels, counts, strict=True)]


@dataclass(frozen=True)
class TranslationEvaluation:
    """The score of a translation model, with what it wrote."""

    name: str
    found: TranslationScore
    translations: list[str]
    references: list[str]

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self.name, **self.found.as_dict()}

    def table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            ["BLEU", f"{self.found.bleu:.2f}", self.found.signature_bleu],
            ["chrF2", f"{self.found.chrf:.2f}", self.found.signature_chrf],
        ]
        return ["metric", "score", "signature"], rows


def translates(folder: Path) -> bool:
    """Whether a run's model translates; otherwise it classifies."""
    check_run(folder)
    return job_of(load_run_recipe(folder)) is Translation


def evaluate(
    folder: Path,
    split: Split = "test",
    *,
    file: str | None = None,
    text: str | None = None,
    label: str | None = None,
    path: str | None = None,
    batch_tokens: int = 16384,
) -> Evaluation:
    """Scores a classifier."""
    model, tokenizer, recipe = load_run_model(folder), load_run_tokenizer(folder), load_run_recipe(folder)
    labels = class_names(model)
    options = moved(recipe.data, path)
    if file is not None:
        split, options = "train", _only(file, recipe.data, text, label)
    elif text is not None or label is not None:
        raise UserError("--text and --label name columns of --file, which is not given")
    data = load_data(options, tokenizer=tokenizer, labels=labels, splits=(split,))
    rows = _rows(data, split, folder)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = scoring_loader(rows, tokenizer.pad_token_id or 0, batch_tokens)
    found = classify(model.to(device), loader, len(labels), device)
    return Evaluation(Path(file).name if file else split, found, labels, data.report.lines())


def evaluate_translation(
    folder: Path,
    split: Split = "test",
    *,
    source: str | None = None,
    reference: str | None = None,
    path: str | None = None,
    search: BeamOptions | None = None,
    batch_tokens: int = 1024,
) -> TranslationEvaluation:
    """Scores a translation model by its beam search."""
    translator = Translator(folder, search, batch_tokens=batch_tokens)
    if (source is None) != (reference is None):
        raise UserError("--source and --reference belong together: give both, or neither for a split of the data")
    if source is not None and reference is not None:
        sources, references = ([text for _, text in iter_texts(name)] for name in (source, reference))
        if len(sources) != len(references):
            raise UserError(
                f"{source} has {len(sources):,} lines and {reference} has {len(references):,}: they must be aligned"
            )
        name = Path(source).name
    else:
        options = moved(load_run_recipe(folder).data, path)
        rows = _rows(load_data(options, tokenizer=translator.tokenizer, splits=(split,)), split, folder)
        sources, references, name = rows["source"][:], rows["target"][:], split
    translations = [found[0].text for found in translator(sources)]
    return TranslationEvaluation(name, score(translations, references), translations, list(references))


def score_checkpoints(folder: Path, count: int, split: Split, path: str | None) -> list[tuple[int, dict[str, float]]]:
    """The metrics of each of the last checkpoints."""
    chosen, recipe = last_checkpoints(folder, count), load_run_recipe(folder)
    recipe.data = moved(recipe.data, path)
    resolve(recipe)
    found: list[tuple[int, dict[str, float]]] = []
    state, job = PartialState(cpu=not torch.cuda.is_available()), None
    for step, checkpoint in chosen:
        model: PreTrainedModel = load_model(checkpoint).to(state.device)
        if job is None:
            tokenizer = load_run_tokenizer(checkpoint)
            labels = None if model.config.is_encoder_decoder else class_names(model)
            data = load_data(recipe.data, tokenizer=tokenizer, labels=labels, splits=(split,))
            _rows(data, split, folder)
            job = job_of(recipe)(recipe, data, state)
        found.append((step, job.score(model, split, final=True)))
    return found


def moved(options: DataOptions, path: str | None) -> DataOptions:
    """The same data at another path."""
    if path is None:
        return options
    if options.path is None:
        raise UserError(
            "--data says where a file or folder given by data.path is now, and this run had none:"
            " give the files to score, by --file, or by --source and --reference"
        )
    return replace(options, path=path)


def _rows(data: TextData, split: Split, folder: Path) -> Any:
    rows = data.split(split)
    if rows is None:
        raise UserError(f"the data of {folder} have no {split} split: give --split validation, or files of your own")
    return rows


def _only(file: str, trained: DataOptions, text: str | None, label: str | None) -> DataOptions:
    """Options that read every row of one file."""
    if trained.task == "listops":
        raise UserError("listops is generated: it has no columns to read from --file; use --split")
    return DataOptions(
        task=trained.task,
        path=file,
        validation=0.0,
        text=text or trained.text,
        label=label or trained.label,
        max_length=trained.max_length,
    )
