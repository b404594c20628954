"""`transevolve quantize`: quantizes the model of a run to int8, for CPUs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """Linear layers, embeddings and the output projection become int8 with a scale per row; activations are quantized
    dynamically. The folder works with predict, translate, evaluate, serve and export.

    Args:
        run: Folder of a trained model.
        output: Folder to write; by default int8 in the run folder.
        split: Score the original and the int8 model on this split of the run's data.
        data: Where the data are, if they have moved since training.
        overwrite: Write into a folder that is not empty.
        threads: Threads to score with; 0 is PyTorch's default.
    """

    run: str = field(metadata=POSITIONAL)
    output: str | None = None
    split: Literal["train", "validation", "test"] | None = None
    data: str | None = None
    overwrite: bool = False
    threads: int = 0


def run(options: Options) -> int:
    from ..core.machine import cpu_flags, cpu_threads
    from ..core.tables import show
    from ..export.quantize import quantize_run

    if options.data is not None and options.split is None:
        raise UserError("--data is the location of the data of --split: add --split")
    output = Path(options.output or Path(options.run) / "int8")
    if not options.output and output.is_symlink():
        raise UserError(
            f"{output} is a symbolic link, and links are not followed: remove it, or choose another --output"
        )
    with cpu_threads(options.threads):
        found = quantize_run(Path(options.run), output, options.overwrite, options.split, options.data)
    metrics = list(found[0].metrics or {})
    columns = ["weights", "MB", "of float32", *metrics, *(["rows per second"] if options.split else [])]
    rows = []
    for measured in found:
        size = [f"{measured.bytes / 1e6:.2f}", f"{measured.bytes / found[0].bytes:.2f}"]
        scores = [f"{(measured.metrics or {})[name]:.4f}" for name in metrics]
        speed = [] if measured.rows_per_second is None else [f"{measured.rows_per_second:,.1f}"]
        rows.append([measured.precision, *size, *scores, *speed])
    scored = "" if options.split is None else f" on the {options.split} split, {found[0].rows:,} rows"
    show(f"int8 and float32{scored}; CPU: {cpu_flags()}", columns, rows)
    print(f"wrote {output}")
    return 0
