"""`transevolve export`: a run's model for elsewhere, checked against the run's own."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """onnx and torch-export take any batch and length; hf is a folder for `from_pretrained`, with a model card.

    Args:
        run: Folder of a trained model.
        format: onnx, torch-export (a .pt2 program) or hf.
        output: Folder to write; by default one named after the format, in the run's own.
        rounds: Times to measure the speed of torch and the exported model, at each length; 0 does not.
        threads: Threads to check and measure with; 0 leaves it to PyTorch.
        overwrite: Write into a folder that is not empty.
    """

    run: str = field(metadata=POSITIONAL)
    format: Literal["onnx", "torch-export", "hf"]
    output: str | None = None
    rounds: int = 20
    threads: int = 0
    overwrite: bool = False


def run(options: Options) -> int:
    import torch

    from ..core.machine import cpu_threads
    from ..core.tables import show
    from ..export.classifier import TOLERANCE
    from ..export.export import export
    from ..export.timing import table

    if options.rounds < 0 or options.threads < 0:
        raise UserError("--rounds and --threads cannot be negative")
    output = Path(options.output or Path(options.run) / options.format)
    with cpu_threads(options.threads or None):
        found = export(Path(options.run), options.format, output, options.rounds, options.overwrite)
        threads = torch.get_num_threads()
    print(f"wrote {output}: {', '.join(found.files)}")
    if found.difference is not None:
        told = f"largest difference of a logit {found.difference:.1e}, allowed {TOLERANCE:g}"
        print(f"checked in {found.runtime}, padded batches of 1 to 3 texts: {told}")
    if found.timings:
        show(
            f"One text at a time, {threads} threads, {options.rounds} rounds in turns",
            *table(found.timings, found.runtime),
        )
    return 0
