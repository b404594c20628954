"""`transevolve predict`: predicts a label and its probability, or a number, for each text."""

from dataclasses import dataclass, field
from typing import Literal

from ..config.command_line import POSITIONAL
from .streaming import check_source, print_predictions

WINDOW = 1024


@dataclass(frozen=True)
class Options:
    """Texts are arguments, from a file, or lines of standard input; a tab separates the texts of a pair.

    Args:
        run: Folder of a trained model.
        texts: The texts.
        file: A file of texts: one per line, or csv, tsv, jsonl or parquet; plain or gzip.
        column: The column of the texts in such a table; two columns for pairs of texts.
        json: Write one JSON object per line: text, label, probability, and the probabilities of all labels;
            value in regression, labels in multilabel, tokens and tags for tagged words.
        batch_tokens: Tokens per batch.
        precision: int8 quantizes weights when the model is loaded (CPU); by default as stored in the run folder.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: list[str] | str | None = None
    json: bool = False
    batch_tokens: int = 8192
    precision: Literal["float32", "int8"] | None = None
    device: str | None = None


def run(options: Options) -> int:
    from ..inference import load

    check_source(options, "texts")
    model = load(options.run, options.device, batch_tokens=options.batch_tokens, precision=options.precision)
    model.require("predict")
    print_predictions(model, options, "texts", WINDOW)
    return 0
