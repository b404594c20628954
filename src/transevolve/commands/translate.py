"""`transevolve translate`: translates sentences with beam search."""

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError
from .streaming import check_source, print_predictions

WINDOW = 512
SEARCH = ("beam", "length_penalty", "extra_length", "n_best")


@dataclass(frozen=True)
class Options:
    """Sentences are arguments, from a file, or lines of standard input. An empty line stays empty.

    Args:
        run: Folder of a trained translation model.
        texts: The sentences.
        file: A file with one sentence per line, plain or gzip; or csv, tsv, jsonl or parquet.
        column: The column of the sentences in such a table.
        beam: Beams of the search; 1 is greedy; by default the recipe's, usually 4.
        length_penalty: The exponent a of ((5 + length) / 6)^a, by which scores are divided; 0.6 by default.
        extra_length: How many tokens longer than its source a translation may be; by default the recipe's.
        n_best: Write this many translations of each sentence, best first, one per line; missing ones are empty lines.
        json: Write one JSON object per line: source, translations and scores.
        batch_tokens: Source tokens per batch.
        precision: int8 quantizes weights when the model is loaded (CPU); by default as stored in the run folder.
        runtime: onnx translates with a folder of `transevolve export --format onnx`, without PyTorch.
        threads: Threads of onnxruntime; 0 is its default.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    beam: int | None = None
    length_penalty: float | None = None
    extra_length: int | None = None
    n_best: int = 1
    json: bool = False
    batch_tokens: int = 1024
    precision: Literal["float32", "int8"] | None = None
    runtime: Literal["torch", "onnx"] = "torch"
    threads: int = 0
    device: str | None = None


def run(options: Options) -> int:
    check_source(options, "sentences")
    if options.runtime == "onnx":
        return _run_onnx(options)
    from ..inference import load
    from ..kinds.translation import run_search

    model = load(options.run, options.device, batch_tokens=options.batch_tokens, precision=options.precision)
    model.require("translate")
    search = run_search(model.recipe, **{name: getattr(options, name) for name in SEARCH})
    print_predictions(model, options, "sentences", WINDOW, search=search)
    return 0


def _run_onnx(options: Options) -> int:
    if find_spec("onnxruntime") is None:
        raise UserError("--runtime onnx needs onnxruntime: pip install onnxruntime")
    if options.precision is not None:
        raise UserError("--precision is decided when a model is exported: transevolve export --precision int8")
    if options.batch_tokens < 1 or options.threads < 0:
        raise UserError("--batch_tokens must be at least 1, and --threads cannot be negative")
    from ..runtime.translator import OnnxTranslator

    model = OnnxTranslator(options.run, options.threads, options.batch_tokens)
    search = model.search(**{name: getattr(options, name) for name in SEARCH})
    print_predictions(model, options, "sentences", WINDOW, search=search)
    return 0
