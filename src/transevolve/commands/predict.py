"""`transevolve predict`: a label and its probability, or a number, for each text, in order."""

from dataclasses import dataclass, field
from typing import Literal

from ..config.command_line import POSITIONAL
from .streaming import check_source, print_predictions

WINDOW = 1024


@dataclass(frozen=True)
class Options:
    """Texts come as arguments, from a file, or else as lines of standard input; a tab is between the texts of a pair.

    Args:
        run: Folder of a trained model.
        texts: The texts.
        file: A file of texts: one per line, or csv, tsv, jsonl or parquet; plain or gzip.
        column: The column of the texts in such a table; two columns for pairs of texts.
        json: Write one JSON object per line: text, label, probability, and the probabilities of all labels;
            value in regression, labels in multilabel, tokens and tags for tagged words.
        batch_tokens: Tokens of a batch.
        precision: int8 quantizes weights as the model is loaded (CPU); by default as the run folder holds them.
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
