"""`transevolve translate`: beam search for each sentence, in the order they came."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError
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
        beam: Beams of the search; 1 is greedy; the recipe's if not given, usually 4.
        length_penalty: The exponent a of ((5 + length) / 6)^a, by which scores are divided.
        extra_length: How many tokens longer than its source a translation may be; the recipe's if not given.
        n_best: Write this many translations of each sentence, best first, each on a line; empty where there are fewer.
        json: Write a JSON object a line: source, translations and scores.
        batch_tokens: Source tokens worked on at once.
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


def run(options: Options) -> int:
    from ..inference.translator import Translator, run_search
    from ..runs.folder import check_run
    from .searching import search_of

    if options.batch_tokens < 1:
        raise UserError(f"--batch_tokens must be at least 1, not {options.batch_tokens}")
    check_source(options, "sentences")
    check_run(Path(options.run))
    search = search_of(options, run_search(Path(options.run)), options.n_best)
    translator = Translator(options.run, search, batch_tokens=options.batch_tokens)
    texts = open_texts(options)
    window = 1 if texts.interactive else WINDOW
    with output():
        for done, (text, found) in enumerate(translator.stream(texts.numbered, texts.source, window), start=1):
            if options.json:
                listed = [{"text": t.text, "score": t.score} for t in found]
                print(json.dumps({"source": text, "translations": listed}, ensure_ascii=False))
            else:
                lines = [" ".join(translated.text.splitlines()) for translated in found]
                print("\n".join([*lines, *[""] * (options.n_best - len(lines))]))
            if texts.interactive:
                sys.stdout.flush()
            elif done % window == 0:
                print(f"{done:,} translated, {translator.rate():,.0f} sentences/s", file=sys.stderr, flush=True)
    say_truncated(translator.truncated, "sentences", translator.max_length)
    return 0
