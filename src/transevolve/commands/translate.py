"""`transevolve translate`: beam search for each sentence, in order."""

from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL
from .streaming import check_source, print_predictions

WINDOW = 512
SEARCH = ("beam", "length_penalty", "extra_length", "n_best")


@dataclass(frozen=True)
class Options:
    """Sentences come as arguments, from a file, or else as lines of standard input. An empty line stays empty.

    Args:
        run: Folder of a trained translation model.
        texts: The sentences.
        file: A file with one sentence per line, plain or gzip; or csv, tsv, jsonl or parquet.
        column: The column of the sentences in such a table.
        beam: Beams of the search; 1 is greedy; by default the recipe's, usually 4.
        length_penalty: The exponent a of ((5 + length) / 6)^a, by which scores are divided.
        extra_length: How many tokens longer than its source a translation may be; by default the recipe's.
        n_best: Write this many translations of each sentence, best first, each on a line; empty where there are fewer.
        json: Write one JSON object per line: source, translations and scores.
        batch_tokens: Source tokens of a batch.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    beam: int | None = None
    length_penalty: float = 0.6
    extra_length: int | None = None
    n_best: int = 1
    json: bool = False
    batch_tokens: int = 1024
    device: str | None = None


def run(options: Options) -> int:
    from ..inference import load
    from ..kinds.translation import run_search

    check_source(options, "sentences")
    model = load(options.run, options.device, batch_tokens=options.batch_tokens)
    model.require("translate")
    search = run_search(model.recipe, **{name: getattr(options, name) for name in SEARCH})
    print_predictions(model, options, "sentences", WINDOW, search=search)
    return 0
