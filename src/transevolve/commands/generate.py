"""`transevolve generate`: what a causal language model writes after a text."""

from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL
from .streaming import check_source, print_predictions

WINDOW = 64
SAMPLING = ("new_tokens", "temperature", "top_k", "top_p", "beam", "samples", "repetition_penalty", "seed")


@dataclass(frozen=True)
class Options:
    """Prompts come as arguments, from a file, or else as lines of standard input.

    Args:
        run: Folder of a causal language model.
        texts: The prompts; an empty one lets the model begin.
        file: A file with one prompt per line, plain or gzip; or csv, tsv, jsonl or parquet.
        column: The column of the prompts in such a table.
        new_tokens: Write at most this many tokens.
        temperature: Divides the logits: below 1 likely tokens become likelier; 0 always takes the likeliest.
        top_k: Choose among this many of the likeliest tokens; 0 is all.
        top_p: Choose among the likeliest tokens that together have this probability.
        beam: Search for the likeliest text with this many beams, instead of sampling.
        samples: Texts per prompt, each on a line.
        repetition_penalty: Above 1, tokens of the text so far become less likely.
        seed: Seed of the sampling.
        json: Write one JSON object per line: prompt and texts.
        batch_tokens: Tokens of a batch.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    new_tokens: int = 50
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    beam: int = 1
    samples: int = 1
    repetition_penalty: float = 1.0
    seed: int = 0
    json: bool = False
    batch_tokens: int = 4096


def run(options: Options) -> int:
    from ..inference import load
    from ..kinds.causal import Sampling

    check_source(options, "prompts")
    sampling = Sampling(**{name: getattr(options, name) for name in SAMPLING})
    model = load(options.run, batch_tokens=options.batch_tokens)
    model.require("generate")
    print_predictions(model, options, "prompts", WINDOW, sampling=sampling)
    return 0
