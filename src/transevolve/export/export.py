"""From a run folder to an exported one: written aside, checked, and only then put in its place."""

import copy
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from ..core.errors import UserError
from ..core.machine import device_name, versions
from ..inference import LoadedRun, load
from ..runs.folder import RESULTS, load_model
from ..runs.results import read_results
from ..runs.storage import MANIFEST
from .card import model_card
from .classifier import Forward, Logits, largest_difference, require_equal, with_backend
from .onnx import load_onnx, require_packages, write_onnx
from .program import load_program, write_program
from .timing import Timing, compare

BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class Exported:
    """What was written, and what was found when it was read back."""

    files: list[str]
    runtime: str
    difference: float | None
    timings: list[Timing] = field(default_factory=list)


def export(run: Path, kind: str, output: Path, rounds: int, overwrite: bool) -> Exported:
    loaded = load(run, "cpu")
    if loaded.kind.graph_output is None and kind != "hf":
        raise UserError(f"{run} is {loaded.kind.noun}, which {kind} cannot hold; --format hf exports it")
    if output.resolve() == run.resolve():
        raise UserError("--output is the run's own folder: choose another")
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output} is a file: choose a folder")
    if not overwrite and output.is_dir() and any(output.iterdir()):
        raise UserError(f"{output} is not empty: choose another --output, or add --overwrite")
    with _aside(output) as folder:
        return _hugging_face(loaded, folder, output.name) if kind == "hf" else _graph(loaded, kind, folder, rounds)


@contextmanager
def _aside(output: Path) -> Iterator[Path]:
    """A folder whose files go to `output` if nothing fails, and nowhere otherwise."""
    part = output.with_name(f".{output.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        output.mkdir(parents=True, exist_ok=True)
        for file in part.iterdir():
            file.replace(output / file.name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _graph(run: LoadedRun, kind: str, folder: Path, rounds: int) -> Exported:
    """A file that holds the whole computation. ONNX has no fused attention with a drift: the literal form is faster."""
    if kind == "onnx":
        require_packages()
    original = Logits(run.model, run.kind).eval()
    config = original.model.config
    path = folder / ("model.onnx" if kind == "onnx" else "model.pt2")
    try:
        if kind == "onnx":
            write_onnx(with_backend(copy.deepcopy(run.model), run.kind, "literal"), config.vocab_size, path)
        else:
            write_program(original, config.vocab_size, path)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        system = getattr(config, "system", "transevolve")
        raise UserError(f"{kind} cannot hold this model ({system}): {_first_line(error)}") from error
    found: Forward = load_onnx(path) if kind == "onnx" else load_program(path)
    runtime = "onnxruntime" if kind == "onnx" else "program"
    difference = largest_difference(original, found, config)
    require_equal(difference, path.name)
    timings = compare(original, found, config, rounds) if rounds else []
    _beside(run.folder, folder)
    exported = Exported(_names(folder, "export.json"), runtime, difference, timings)
    (folder / "export.json").write_text(json.dumps(_record(kind, exported), indent=1) + "\n", encoding="utf-8")
    return exported


def _record(kind: str, exported: Exported) -> dict[str, Any]:
    machine = {"device": device_name("cpu"), "threads": torch.get_num_threads(), **versions()}
    return {"format": kind, **asdict(exported), "machine": machine}


def _hugging_face(run: LoadedRun, folder: Path, name: str) -> Exported:
    logging.disable_progress_bar()
    named = json.loads((run.folder / MANIFEST).read_text(encoding="utf-8"))["sha256"]
    for file in named:
        if not file.endswith(".yaml"):
            shutil.copyfile(run.folder / file, folder / Path(file).name)
    reloaded = load_model(folder, run.kind.auto_class)
    card = model_card(name, run.recipe, _result(run.folder), run.kind, reloaded.config)
    (folder / "README.md").write_text(card, encoding="utf-8")
    difference = None
    if run.kind.graph_output is not None:
        ours, theirs = Logits(run.model, run.kind), Logits(reloaded, run.kind).eval()
        difference = largest_difference(ours, theirs, reloaded.config)
        require_equal(difference, "the copy")
    return Exported(_names(folder), "transformers", difference)


def _beside(run: Path, folder: Path) -> None:
    """What is needed to make ids of texts, and labels of logits."""
    for name in BESIDE:
        if (run / name).is_file():
            shutil.copyfile(run / name, folder / name)


def _result(run: Path) -> dict[str, Any] | None:
    path = run / RESULTS
    return read_results(path) if path.exists() else None


def _names(folder: Path, *more: str) -> list[str]:
    return sorted([*(file.name for file in folder.iterdir()), *more])


def _first_line(error: BaseException) -> str:
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    lines = [line for line in str(root).splitlines() if line.strip()]
    return lines[0] if lines else type(root).__name__
