"""`transevolve evaluate`: reloads a run's model and scores it on a split, or on a file of your own."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..options import POSITIONAL


@dataclass(frozen=True)
class Options:
    """The split is read from where the run's recipe says.

    Args:
        run: Folder of a trained model.
        split: Which split to score.
        file: A labelled file to score instead: csv, tsv, jsonl or parquet, with the columns of the training file.
        text: Column of the texts in that file, if it is not the training file's.
        label: Column of the classes in that file, if it is not the training file's.
        data: Where the data are now, if they have moved since training.
        json: Write one JSON object instead of tables.
        output: Folder for confusion.png and evaluation.json; the run's own if not given.
        batch_tokens: Tokens worked on at once.
    """

    run: str = field(metadata=POSITIONAL)
    split: Literal["train", "validation", "test"] = "test"
    file: str | None = None
    text: str | None = None
    label: str | None = None
    data: str | None = None
    json: bool = False
    output: str | None = None
    batch_tokens: int = 16384


def run(options: Options) -> int:
    from ..bench.tables import show
    from ..training.evaluation import evaluate
    from ..training.report import write_confusion
    from ..training.storage import write_atomically

    scored = evaluate(
        Path(options.run),
        options.split,
        file=options.file,
        text=options.text,
        label=options.label,
        path=options.data,
        batch_tokens=options.batch_tokens,
    )
    folder = Path(options.output or options.run)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{scored.name}.confusion.png"
    write_confusion(folder / name, scored.found, scored.labels, f"{scored.name}: accuracy {scored.found.accuracy:.4f}")
    content = json.dumps(scored.as_dict(), ensure_ascii=False, indent=1)
    write_atomically(folder / f"{scored.name}.evaluation.json", content + "\n")
    if options.json:
        print(json.dumps(scored.as_dict(), ensure_ascii=False))
        return 0
    print("\n".join(scored.report_lines), file=sys.stderr)
    show(f"{scored.name}: accuracy {scored.found.accuracy:.4f}", *scored.class_table())
    if len(scored.labels) <= 20:
        show("Confusion, true class down", *scored.confusion_table())
    print(f"wrote {folder / name} and {scored.name}.evaluation.json")
    return 0
