"""`transevolve explain`: shows how a classifier processes a text, or measures the error of evolved attention."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL
from ..core.errors import UserError

MEASURED = 512


@dataclass(frozen=True)
class Options:
    """Writes a page and a picture: tokens as particles, attention and its drift, and the prediction at each depth.
    With --error, measures the distance of evolved attention from recomputed attention.

    Args:
        run: Folder of a trained TransEvolve classifier.
        text: The text.
        output: The page; by default explain.html in the run's folder (with --error: evolution-error.png).
        tokens: Maximum tokens of a text to show (48), or to read with --error (512).
        error: Measure how far evolved attention is from recomputed attention at each depth, over many texts.
        file: With --error, a file of texts: one per line, or csv, tsv, jsonl or parquet; plain or gzip.
        column: The column of the texts in such a table.
        limit: With --error, the maximum number of texts to read.
        device: Device to compute on: cpu, cuda, cuda:1 ...
    """

    run: str = field(metadata=POSITIONAL)
    text: list[str] = field(default_factory=list, metadata=POSITIONAL)
    output: str | None = None
    tokens: int | None = None
    error: bool = False
    file: str | None = None
    column: str | None = None
    limit: int = 500
    device: str = "cpu"


def run(options: Options) -> int:
    if options.tokens is not None and options.tokens < 1:
        raise UserError(f"--tokens must be at least 1, not {options.tokens}")
    if options.limit < 1:
        raise UserError(f"--limit must be at least 1, not {options.limit}")
    if options.error:
        return _error(options)
    if options.file or options.column:
        raise UserError("--file and --column need --error; without it, give one text after the run")
    text = " ".join(options.text)
    if not text.strip():
        raise UserError('give a text to explain: transevolve explain RUN "the text"')
    from ..explain.explain import SHOWN, write_explanation
    from ..explain.observe import Observer

    page = _suffixed(options.output or str(Path(options.run) / "explain.html"), ".html")
    observer = Observer(Path(options.run), options.device)
    seen = write_explanation(observer, text, page, options.tokens or SHOWN)
    best = seen.prediction
    print(f"{seen.labels[best]}\t{seen.readout[-1, best]:.4f}")
    print(f"wrote {page} and {page.with_suffix('.png').name}")
    return 0


def _error(options: Options) -> int:
    from ..core.files import write_atomically
    from ..core.tables import show
    from ..explain.error_over_depth import measure, write_picture
    from ..explain.observe import Observer

    if bool(options.file) == bool(options.text):
        raise UserError("--error measures over texts: give --file F, or texts after the run")
    picture = _suffixed(options.output or str(Path(options.run) / "evolution-error.png"), ".png")
    observer = Observer(Path(options.run), options.device)
    texts = options.text or [text for _, text in itertools.islice(_filled(options), options.limit)]
    if not texts:
        raise UserError(f"{options.file} contains no text")
    found = measure(observer, texts, options.tokens or MEASURED)
    title = f"{Path(options.run).name}: does evolved attention track recomputed attention?"
    write_picture(picture, found, title)
    content = {"run": options.run, "source": options.file or "arguments", **found.as_dict()}
    write_atomically(picture.with_suffix(".json"), json.dumps(content, indent=1) + "\n")
    show(f"{found.texts:,} texts: total variation from recomputed attention", *found.table())
    if found.cut:
        print(f"{found.cut:,} texts were cut")
    print(f"wrote {picture} and {picture.with_suffix('.json').name}")
    return 0


def _filled(options: Options) -> Iterator[tuple[int, str]]:
    """The texts of the file that are not blank."""
    from ..data import iter_texts

    assert options.file is not None
    return (item for item in iter_texts(options.file, options.column) if item[1].strip())


def _suffixed(name: str, suffix: str) -> Path:
    path = Path(name)
    if path.is_dir():
        raise UserError(f"--output {name} is a folder; give the name of a file, such as {path / ('page' + suffix)}")
    if path.suffix and path.suffix != suffix:
        raise UserError(f"--output {name} must end in {suffix}")
    return path.with_suffix(suffix)
