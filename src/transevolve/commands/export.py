"""`transevolve export`: the model of a run in another format, checked against the original."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..config.command_line import POSITIONAL
from ..core.errors import UserError


@dataclass(frozen=True)
class Options:
    """onnx and torch-export take any batch size and length; hf is a folder for `from_pretrained`, with a model card.

    Args:
        run: Folder of a trained model.
        format: onnx, torch-export (a .pt2 program) or hf.
        output: Folder to write; by default one in the run folder, named after the format.
        rounds: Timed rounds of PyTorch and the exported model at each length; 0 skips timing.
        threads: Threads to check and time with; 0 is PyTorch's default.
        overwrite: Write into a folder that is not empty.
        license: Licence of the weights for the model card, such as apache-2.0 (hf only).
    """

    run: str = field(metadata=POSITIONAL)
    format: Literal["onnx", "torch-export", "hf"]
    output: str | None = None
    rounds: int = 20
    threads: int = 0
    overwrite: bool = False
    license: str = "unknown"


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
        found = export(Path(options.run), options.format, output, options.rounds, options.overwrite, options.license)
        threads = torch.get_num_threads()
    print(f"wrote {output}: {', '.join(found.files)}")
    if found.difference is not None:
        difference = f"largest difference of a logit {found.difference:.1e}, allowed {TOLERANCE:g}"
        print(f"checked in {found.runtime} on padded batches of 1 to 3 texts: {difference}")
    if found.timings:
        show(
            f"One text at a time, {threads} threads, {options.rounds} rounds",
            *table(found.timings, found.runtime),
        )
    return 0
