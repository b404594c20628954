"""`transevolve evaluate`: reloads a run's model and scores it on a split, or on files of your own."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """The split is read from where the run's recipe says.

    Args:
        run: Folder of a trained model.
        split: Which split to score.
        file: A labelled file to score instead: csv, tsv, jsonl or parquet, with the columns of the training file.
        text: Column of the texts in that file, if it is not the training file's.
        label: Column of the classes in that file, if it is not the training file's.
        source: Sentences to translate and score instead, one a line; with --reference.
        reference: Their translations, one a line.
        against: Another run that translates: both are compared by paired bootstrap.
        beam: Beams of the search (translation); the recipe's if not given.
        length_penalty: Exponent of the length penalty (translation).
        extra_length: How many tokens longer than its source a translation may be; the recipe's if not given.
        data: Where the data are now, if they have moved since training.
        json: Write one JSON object instead of tables.
        output: Folder for the picture and the numbers; the run's own if not given.
        batch_tokens: Tokens worked on at once; 16384, or 1024 when translating.
    """

    run: str = field(metadata=POSITIONAL)
    split: Literal["train", "validation", "test"] = "test"
    file: str | None = None
    text: str | None = None
    label: str | None = None
    source: str | None = None
    reference: str | None = None
    against: str | None = None
    beam: int | None = None
    length_penalty: float = 0.6
    extra_length: int | None = None
    data: str | None = None
    json: bool = False
    output: str | None = None
    batch_tokens: int | None = None


def run(options: Options) -> int:
    from ..inference.evaluation import translates

    if options.batch_tokens is not None and options.batch_tokens < 1:
        raise UserError(f"--batch_tokens must be at least 1, not {options.batch_tokens}")
    folder = Path(options.output or options.run)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--output {folder} is a file: choose a folder")
    if translates(Path(options.run)):
        _only_for("a translation model", options, "file", "text", "label")
        return _translation(options, folder)
    _only_for("a classifier", options, "source", "reference", "against")
    return _classification(options, folder)


def _only_for(kind: str, options: Options, *names: str) -> None:
    given = next((name for name in names if getattr(options, name) is not None), None)
    if given is not None:
        raise UserError(f"{options.run} is {kind}: --{given} has no meaning for it")


def _classification(options: Options, folder: Path) -> int:
    from ..core.tables import show
    from ..inference.evaluation import evaluate
    from ..runs.plots import write_confusion

    scored = evaluate(
        Path(options.run),
        options.split,
        file=options.file,
        text=options.text,
        label=options.label,
        path=options.data,
        batch_tokens=options.batch_tokens or 16384,
    )
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{scored.name}.confusion.png"
    write_confusion(picture, scored.found, scored.labels, f"{scored.name}: accuracy {scored.found.accuracy:.4f}")
    _write(folder, scored.name, scored.as_dict())
    if options.json:
        print(json.dumps(scored.as_dict(), ensure_ascii=False))
        return 0
    print("\n".join(scored.report_lines), file=sys.stderr)
    show(f"{scored.name}: accuracy {scored.found.accuracy:.4f}", *scored.class_table())
    if len(scored.labels) <= 20:
        show("Confusion, true class down", *scored.confusion_table())
    print(f"wrote {picture} and {scored.name}.evaluation.json")
    return 0


def _translation(options: Options, folder: Path) -> int:
    from ..core.files import write_atomically
    from ..core.tables import show
    from ..inference.evaluation import evaluate_translation
    from ..inference.translator import run_search
    from ..metrics import compare
    from .searching import search_of

    search = search_of(options, run_search(Path(options.run)))
    runs = [options.run] if options.against is None else [options.run, options.against]
    scored = [
        evaluate_translation(
            Path(name),
            options.split,
            source=options.source,
            reference=options.reference,
            path=options.data,
            search=search,
            batch_tokens=options.batch_tokens or 1024,
        )
        for name in runs
    ]
    first = scored[0]
    found = first.as_dict()
    if options.against is not None:
        if scored[1].references != first.references:
            raise UserError(f"{options.run} and {options.against} have other references: give --source and --reference")
        found["against"] = options.against
        found["comparison"] = compare(first.translations, scored[1].translations, first.references).as_dict()
    write_atomically(folder / f"{first.name}.translations.txt", "".join(f"{t}\n" for t in first.translations))
    _write(folder, first.name, found)
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    show(f"{first.name}: {first.found.lines:,} sentences, beam {search.beams}", *first.table())
    if options.against is not None:
        rows = [
            [
                metric,
                f"{d['a']:.2f} ± {d['margin_a']:.2f}",
                f"{d['b']:.2f} ± {d['margin_b']:.2f}",
                f"{d['p_value']:.4f}",
            ]
            for metric, d in found["comparison"].items()
        ]
        show("Paired bootstrap", ["metric", options.run, options.against, "p"], rows)
    print(f"wrote {folder / first.name}.translations.txt and {first.name}.evaluation.json")
    return 0


def _write(folder: Path, name: str, content: dict) -> None:
    from ..core.files import write_atomically

    write_atomically(folder / f"{name}.evaluation.json", json.dumps(content, ensure_ascii=False, indent=1) + "\n")
