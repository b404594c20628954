"""`transevolve predict`: a label and its probability for each text, in the order they came."""

import json
import sys
from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL
from ..core.errors import UserError
from .streaming import check_source, open_texts, output, say_truncated

WINDOW = 1024
ONE_FIELD = str.maketrans("\t\r\n", "   ")


@dataclass(frozen=True)
class Options:
    """Texts come as arguments, from a file, or else as lines of standard input.

    Args:
        run: Folder of a trained classifier.
        texts: The texts.
        file: A file of texts: one a line, or csv, tsv, jsonl or parquet; plain or gzip.
        column: The column of the texts in such a table.
        json: Write a JSON object a line: text, label, probability, and the probabilities of all labels.
        batch_tokens: Tokens worked on at once.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    json: bool = False
    batch_tokens: int = 8192


def run(options: Options) -> int:
    from ..inference.prediction import Predictor

    if options.batch_tokens < 1:
        raise UserError(f"--batch_tokens must be at least 1, not {options.batch_tokens}")
    check_source(options, "texts")
    predictor = Predictor(options.run, batch_tokens=options.batch_tokens)
    texts = open_texts(options)
    with output():
        for prediction in predictor.stream(texts.numbered, texts.source, 1 if texts.interactive else WINDOW):
            if options.json:
                print(json.dumps(_object(prediction), ensure_ascii=False))
            else:
                print(f"{prediction.label.translate(ONE_FIELD)}\t{prediction.probability:.4f}")
            if texts.interactive:
                sys.stdout.flush()
    say_truncated(predictor.truncated, "texts", predictor.max_length)
    return 0


def _object(prediction) -> dict:
    return {
        "text": prediction.text,
        "label": prediction.label,
        "probability": prediction.probability,
        "probabilities": dict(zip(prediction.labels, prediction.probabilities, strict=True)),
    }
