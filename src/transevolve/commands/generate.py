"""`transevolve generate`: continues texts with a causal language model."""

from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL
from ..config.sampling import Sampling
from .streaming import check_source, print_predictions

WINDOW = 64


@dataclass(frozen=True, kw_only=True)
class Options(Sampling):
    """Prompts come as arguments, from a file, or else as lines of standard input.

    Args:
        run: Folder of a causal language model.
        texts: The prompts; an empty prompt generates from the start.
        file: A file with one prompt per line, plain or gzip; or csv, tsv, jsonl or parquet.
        column: The column of the prompts in such a table.
        json: Write one JSON object per line: prompt and texts.
        batch_tokens: Tokens per batch.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    json: bool = False
    batch_tokens: int = 4096


def run(options: Options) -> int:
    from ..inference import load

    check_source(options, "prompts")
    model = load(options.run, batch_tokens=options.batch_tokens)
    model.require("generate")
    print_predictions(model, options, "prompts", WINDOW, sampling=options)
    return 0
