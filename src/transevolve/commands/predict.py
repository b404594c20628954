"""`transevolve predict`: a label and its probability for each text, in the order they came."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import UserError
from ..options import POSITIONAL


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
    from ..training.prediction import Predictor

    if options.batch_tokens < 1:
        raise UserError(f"--batch_tokens must be at least 1, not {options.batch_tokens}")
    if options.texts and options.file:
        raise UserError("texts are given both as arguments and by --file: choose one")
    if options.column and not options.file:
        raise UserError("--column names a column of --file, which is not given")
    predictor = Predictor(options.run, batch_tokens=options.batch_tokens)
    texts, source = read(options)
    window = 1 if source == "standard input" and sys.stdin.isatty() else 1024
    try:
        for prediction in predictor.stream(texts, source, window):
            if options.json:
                print(json.dumps(_object(prediction), ensure_ascii=False))
            else:
                print(f"{prediction.label}\t{prediction.probability:.4f}")
            if window == 1:
                sys.stdout.flush()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if predictor.truncated:
        limit = f"{predictor.max_length:,} tokens"
        print(f"{predictor.truncated:,} texts were longer than {limit} and were cut", file=sys.stderr)
    return 0


def read(options: Options) -> tuple[Iterator[tuple[int, str]], str]:
    """(number, text) for each text, and what to call their source."""
    from ..tasks import iter_texts

    if options.texts:
        return iter(list(enumerate(options.texts, start=1))), "arguments"
    if options.file:
        return iter_texts(options.file, options.column), options.file
    return iter_texts(sys.stdin.buffer), "standard input"


def _object(prediction) -> dict:
    return {
        "text": prediction.text,
        "label": prediction.label,
        "probability": prediction.probability,
        "probabilities": dict(zip(prediction.labels, prediction.probabilities, strict=True)),
    }
