"""`transevolve translate`: beam search for each sentence, in the order they came."""

import json
import sys
from dataclasses import dataclass, field

from ..errors import UserError
from ..options import POSITIONAL
from .streaming import check_source, open_texts, output, say_truncated

WINDOW = 512


@dataclass(frozen=True)
class Options:
    """Sentences come as arguments, from a file, or else as lines of standard input. An empty line stays empty.

    Args:
        run: Folder of a trained translation model.
        texts: The sentences.
        file: A file with one sentence a line, plain or gzip; or csv, tsv, jsonl or parquet.
        column: The column of the sentences in such a table.
        beam: Beams of the search; 1 is greedy.
        length_penalty: The exponent a of ((5 + length) / 6)^a, by which scores are divided.
        extra_length: How many tokens longer than its source a translation may be.
        n_best: Write this many translations of each sentence, best first, each on a line.
        json: Write a JSON object a line: source, translations and scores.
        batch_tokens: Source tokens worked on at once.
    """

    run: str = field(metadata=POSITIONAL)
    texts: list[str] = field(default_factory=list, metadata=POSITIONAL)
    file: str | None = None
    column: str | None = None
    beam: int = 4
    length_penalty: float = 0.6
    extra_length: int = 50
    n_best: int = 1
    json: bool = False
    batch_tokens: int = 1024


def run(options: Options) -> int:
    from ..decoding import BeamOptions
    from ..training.translator import Translator

    for name in ("beam", "n_best", "extra_length", "batch_tokens"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    if options.n_best > options.beam:
        raise UserError(
            f"--n_best {options.n_best} needs at least as many beams: raise --beam, which is {options.beam}"
        )
    if options.length_penalty < 0:
        raise UserError(f"--length_penalty must not be negative, and is {options.length_penalty}")
    check_source(options, "sentences")
    search = BeamOptions(
        beams=options.beam, alpha=options.length_penalty, extra_length=options.extra_length, n_best=options.n_best
    )
    translator = Translator(options.run, search, batch_tokens=options.batch_tokens)
    texts = open_texts(options)
    window = 1 if texts.interactive else WINDOW
    with output():
        for done, (text, found) in enumerate(translator.stream(texts.numbered, texts.source, window), start=1):
            if options.json:
                listed = [{"text": t.text, "score": t.score} for t in found]
                print(json.dumps({"source": text, "translations": listed}, ensure_ascii=False))
            else:
                for translated in found:
                    print(" ".join(translated.text.splitlines()))
            if texts.interactive:
                sys.stdout.flush()
            elif done % window == 0:
                print(f"{done:,} translated, {translator.rate():,.0f} sentences/s", file=sys.stderr, flush=True)
    say_truncated(translator.truncated, "sentences", translator.max_length)
    return 0
