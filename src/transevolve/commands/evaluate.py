"""`transevolve evaluate`: loads the model of a run and scores it on a split, or on your own files."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError

if TYPE_CHECKING:
    from ..inference import Evaluation, LoadedRun


@dataclass(frozen=True)
class Options:
    """The split is read from the data of the run's recipe.

    Args:
        run: Folder of a trained model.
        split: The split to score.
        file: A labelled file to score instead: csv, tsv, jsonl or parquet, with the columns of the training file.
        text: Column of the texts in that file, or two for pairs, if they differ from the training file's.
        label: Column or columns of the labels in that file, if they differ from the training file's.
        source: Sentences to translate and score instead, one per line; with --reference.
        reference: Their translations, one per line.
        against: Another translation run, compared by paired bootstrap.
        beam: Beams of the search (translation); by default the recipe's.
        length_penalty: Exponent of the length penalty (translation); 0.6 by default.
        extra_length: How many tokens longer than its source a translation may be; by default the recipe's.
        data: Where the data are, if they have moved since training.
        json: Write one JSON object instead of tables.
        output: Folder for plots and scores; by default the run folder.
        batch_tokens: Tokens per batch; by default the recipe's training.eval_tokens.
        precision: int8 quantizes weights when the model is loaded (CPU); by default as stored in the run folder.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    run: str = field(metadata=POSITIONAL)
    split: Literal["train", "validation", "test"] = "test"
    file: str | None = None
    text: list[str] | str | None = None
    label: list[str] | str | None = None
    source: str | None = None
    reference: str | None = None
    against: str | None = None
    beam: int | None = None
    length_penalty: float | None = None
    extra_length: int | None = None
    data: str | None = None
    json: bool = False
    output: str | None = None
    batch_tokens: int | None = None
    precision: Literal["float32", "int8"] | None = None
    device: str | None = None


FILES = ("file", "text", "label", "source", "reference")
SEARCH = ("beam", "length_penalty", "extra_length")


def run(options: Options) -> int:
    from ..core.files import write_atomically
    from ..core.tables import show
    from ..inference import load

    folder = Path(options.output or options.run)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output {folder} is a file: choose a folder")
    names = [options.run] if options.against is None else [options.run, options.against]
    evaluations = []
    for name in names:
        model = load(name, options.device, batch_tokens=options.batch_tokens, precision=options.precision)
        evaluations.append(_evaluate(model, options))
        del model
    first = evaluations[0]
    found, tables = first.as_dict(), first.score.tables()
    if options.against is not None:
        compared, table = first.score.compare(evaluations[1].score, (options.run, options.against))
        found |= {"against": options.against, "comparison": compared}
        tables.append(table)
    folder.mkdir(parents=True, exist_ok=True)
    written = [*first.score.write(folder, first.name), folder / f"{first.name}.evaluation.json"]
    write_atomically(written[-1], json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print("\n".join(first.report), file=sys.stderr)
    show(f"{first.name}: {tables[0].title}", *tables[0][1:])
    for table in tables[1:]:
        show(*table)
    print(f"wrote {' and '.join(map(str, written))}")
    return 0


def _evaluate(model: "LoadedRun", options: Options) -> "Evaluation":
    for name in (*FILES, "against"):
        if getattr(options, name) is not None and name not in model.kind.evaluation_options:
            raise UserError(f"{model.folder} is {model.kind.noun}: --{name} does not apply to it")
    more = {}
    if model.kind.command == "translate":
        from ..kinds.translation import run_search

        more["search"] = run_search(model.recipe, **{name: getattr(options, name) for name in SEARCH})
    files = {name: getattr(options, name) for name in FILES}
    return model.evaluate(options.split, data=options.data, files=files, **more)
