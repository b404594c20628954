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
        precision: int8 quantizes weights (onnx only).
        license: Licence of the weights for the model card, such as apache-2.0 (hf only).
    """

    run: str = field(metadata=POSITIONAL)
    format: Literal["onnx", "torch-export", "hf"]
    output: str | None = None
    rounds: int = 20
    threads: int = 0
    overwrite: bool = False
    precision: Literal["float32", "int8"] = "float32"
    license: str = "unknown"


def run(options: Options) -> int:
    import torch

    from ..core.machine import cpu_threads
    from ..core.tables import show
    from ..export.classifier import TOLERANCE
    from ..export.export import export
    from ..export.timing import table
    from ..export.translation import TOLERANCE as STEP_TOLERANCE

    if options.rounds < 0:
        raise UserError("--rounds cannot be negative")
    folder, int8 = Path(options.run), options.precision == "int8"
    output = Path(options.output or folder / options.format)
    with cpu_threads(options.threads):
        found = export(folder, options.format, output, options.rounds, options.overwrite, options.license, int8)
        threads = torch.get_num_threads()
    print(f"wrote {output}: {', '.join(found.files)}")
    translates = any(name.startswith("decoder") for name in found.files)
    if found.difference is not None:
        what, batches = ("score", "random sources") if translates else ("logit", "padded batches of 1 to 3 texts")
        allowed = "" if int8 else f", allowed {STEP_TOLERANCE if translates else TOLERANCE:g}"
        difference = f"largest difference of a {what} {found.difference:.1e}{allowed}"
        print(f"checked in {found.runtime} on {batches}: {difference}")
    if found.timings:
        title = "8 sentences at a time, beam search" if translates else "One text at a time"
        show(f"{title}, {threads} threads, {options.rounds} rounds", *table(found.timings, found.runtime))
    return 0
