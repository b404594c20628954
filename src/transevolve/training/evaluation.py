"""A saved classifier scored again on a split of its data, or on another labelled file."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from ..tasks import DataOptions, load_data
from ..tasks.options import Split
from .run import load_run_model, load_run_recipe, load_run_tokenizer
from .scoring import Classification, classify, scoring_loader


@dataclass(frozen=True)
class Evaluation:
    """The score of one set of rows.

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
    model, tokenizer, recipe = load_run_model(folder), load_run_tokenizer(folder), load_run_recipe(folder)
    labels = [model.config.id2label[number] for number in range(model.config.num_labels)]
    options = recipe.data if path is None else replace(recipe.data, path=path)
    if file is not None:
        split, options = "train", _only(file, recipe.data, text, label)
    elif text is not None or label is not None:
        raise UserError("--text and --label name columns of --file, which is not given")
    data = load_data(options, tokenizer=tokenizer, labels=labels, splits=(split,))
    rows = data.split(split)
    if rows is None:
        raise UserError(f"the data of {folder} have no {split} split: give --split validation, or a --file")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = scoring_loader(rows, tokenizer.pad_token_id or 0, batch_tokens)
    found = classify(model.to(device), loader, len(labels), device)
    return Evaluation(Path(file).name if file else split, found, labels, data.report.lines())


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
