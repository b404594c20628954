"""Exports a run folder: files are written to a temporary folder, checked, and then moved to the output folder."""

import copy
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from transformers.utils import logging

from ..core.errors import UserError, first_line
from ..core.files import staging_folder
from ..core.machine import describe_machine
from ..inference import LoadedRun, load
from ..runs.folder import load_model
from ..runs.names import CONFIG, INT8_WEIGHTS, MANIFEST, RESULTS, TOKENIZER
from ..runs.results import read_results
from .card import UNKNOWN_LICENSE, model_card
from .classifier import Logits, dynamic_shapes, largest_difference, logits_of, require_close, sample
from .int8_onnx import quantize_onnx
from .onnx import INPUTS, load_onnx, require_packages, write_onnx
from .program import load_program, write_program
from .timing import Timing, compare
from .translation import write_translator

REQUIRES = "pip install transevolve; `import transevolve` before from_pretrained registers the model"
TOKENIZER_AND_LABELS = (CONFIG, *TOKENIZER, "special_tokens_map.json")


@dataclass(frozen=True)
class Exported:
    """The exported files, and how they compare with the model."""

    files: list[str]
    runtime: str
    difference: float | None
    timings: list[Timing] = field(default_factory=list)


def export(
    run: Path,
    format: str,
    output: Path,
    rounds: int,
    overwrite: bool,
    license: str = UNKNOWN_LICENSE,
    int8: bool = False,
) -> Exported:
    """Checks the run against its manifest, then exports it."""
    loaded = load(run, "cpu", precision="float32")
    if int8 and format != "onnx":
        raise UserError("--precision int8 is for --format onnx; transevolve quantize makes an int8 run")
    translates = loaded.kind.command == "translate"
    if loaded.kind.graph_output is None and not translates and format != "hf":
        raise UserError(f"{run} is {loaded.kind.noun}, which {format} does not support: use --format hf")
    if format == "hf" and (run / INT8_WEIGHTS).exists():
        raise UserError(f"{run} is quantized, which transformers cannot load: export the original run")
    check_output(run, output, overwrite)
    with moved_into_place(output) as folder:
        if format == "hf":
            return _hugging_face(loaded, folder, output.name, license)
        return (_translator if translates else _graph)(loaded, format, folder, rounds, int8)


def check_output(run: Path, output: Path, overwrite: bool) -> None:
    if output.resolve() == run.resolve():
        raise UserError("--output is the run folder: choose another folder")
    if output.name in ("", ".."):
        raise UserError(f"--output {output} has no name: choose a new folder")
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output} is a file: choose a folder")
    if not overwrite and output.is_dir() and any(output.iterdir()):
        raise UserError(f"{output} is not empty: choose another --output, or add --overwrite")


@contextmanager
def moved_into_place(output: Path) -> Iterator[Path]:
    """Yields a temporary folder; its files are moved to `output` if the block succeeds."""
    with staging_folder(output) as part:
        yield part
        output.mkdir(parents=True, exist_ok=True)
        for file in part.iterdir():
            file.replace(output / file.name)


def _graph(run: LoadedRun, format: str, folder: Path, rounds: int, int8: bool) -> Exported:
    """Exports the model as one file. ONNX has no fused attention with a drift, so `literal` is faster there."""
    onnx = format == "onnx"
    if onnx:
        require_packages()
    original = logits_of(run.model, run.kind)
    config = original.model.config
    path = folder / ("model.onnx" if onnx else "model.pt2")
    example, shapes = sample(2, 6, config.vocab_size), dynamic_shapes()
    try:
        if onnx:
            literal = logits_of(copy.deepcopy(run.model), run.kind, "literal")
            write_onnx(literal, example, shapes, INPUTS, ["logits"], path)
        else:
            write_program(original, example, shapes, path)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        system = getattr(config, "system", "transevolve")
        raise UserError(f"{format} cannot represent this model ({system}): {_cause(error)}") from error
    if int8:
        quantize_onnx(path)
    found = load_onnx(path) if onnx else load_program(path)
    difference = largest_difference(original, found, config)
    if not int8:
        require_close(difference, path.name)
    timings = compare(original, found, config, rounds) if rounds else []
    return _record(run, format, folder, difference, timings, int8)


def _translator(run: LoadedRun, format: str, folder: Path, rounds: int, int8: bool) -> Exported:
    if format == "onnx":
        require_packages()
    try:
        difference, timings = write_translator(run, folder, format, int8, rounds)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise UserError(f"{format} cannot represent this model: {_cause(error)}") from error
    return _record(run, format, folder, difference, timings, int8)


def _record(
    run: LoadedRun, format: str, folder: Path, difference: float, timings: list[Timing], int8: bool
) -> Exported:
    """Copies the tokenizer and labels, and writes export.json."""
    for name in TOKENIZER_AND_LABELS:
        if (run.folder / name).is_file():
            shutil.copyfile(run.folder / name, folder / name)
    runtime = "onnxruntime" if format == "onnx" else "program"
    exported = Exported(_names(folder, "export.json"), runtime, difference, timings)
    precision = "int8" if int8 else "float32"
    record = {"format": format, "precision": precision, **asdict(exported), "machine": describe_machine()}
    (folder / "export.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return exported


def _hugging_face(run: LoadedRun, folder: Path, name: str, license: str) -> Exported:
    logging.disable_progress_bar()
    files = json.loads((run.folder / MANIFEST).read_text(encoding="utf-8"))["sha256"]
    for file in files:
        if not file.endswith(".yaml"):
            shutil.copyfile(run.folder / file, folder / Path(file).name)
    saved = load_model(folder, run.kind.auto_class)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    (folder / CONFIG).write_text(json.dumps({**config, "requires": REQUIRES}, indent=2) + "\n", encoding="utf-8")
    card = model_card(name, run.recipe, _result(run.folder), run.kind, saved.config, license)
    (folder / "README.md").write_text(card, encoding="utf-8")
    difference = None
    if run.kind.graph_output is not None:
        difference = largest_difference(logits_of(run.model, run.kind), Logits(saved, run.kind).eval(), saved.config)
        require_close(difference, "the copy")
    return Exported(_names(folder), "transformers", difference)


def _result(run: Path) -> dict[str, Any] | None:
    path = run / RESULTS
    return vars(read_results(path)) if path.exists() else None


def _names(folder: Path, *more: str) -> list[str]:
    return sorted([*(file.name for file in folder.iterdir()), *more])


def _cause(error: BaseException) -> str:
    """The message of the first error in a chain of causes, which comes from the exporter."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)
