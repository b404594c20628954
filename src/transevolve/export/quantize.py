"""Converts a run to an int8 run folder, and compares its scores with the original."""

import copy
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from ..core.errors import UserError
from ..core.machine import describe_machine
from ..data.options import Split
from ..inference import LoadedRun, load
from ..models.int8 import int8_weights, is_int8, quantize
from ..runs.names import CONFIG, DATA, INT8_WEIGHTS, RECIPE, TOKENIZER, WEIGHTS, WEIGHTS_INDEX
from ..runs.storage import write_manifest
from .export import check_output, moved_into_place

RECORD = "quantization.json"
COPIED = (CONFIG, "generation_config.json", "special_tokens_map.json", *TOKENIZER, RECIPE, DATA)


@dataclass(frozen=True)
class Measured:
    """Size on disk and scores of a model; `rows_per_second` is without reading the data."""

    precision: str
    bytes: int
    rows: int | None = None
    metrics: dict[str, float] | None = None
    rows_per_second: float | None = None


def quantize_run(
    run: Path, output: Path, overwrite: bool = False, split: Split | None = None, data: str | None = None
) -> list[Measured]:
    """Writes the int8 folder; with a split, scores the original and the written model."""
    original = load(run, "cpu")
    if is_int8(original.model):
        raise UserError(f"{run} is already int8")
    check_output(run, output, overwrite)
    with moved_into_place(output) as folder:
        made = quantize(copy.deepcopy(original.model))
        save_file(int8_weights(original.model, made), folder / INT8_WEIGHTS)
        for name in COPIED:
            if (run / name).is_file():
                shutil.copyfile(run / name, folder / name)
        write_manifest(folder)
        written = load(folder, "cpu")
        with torch.inference_mode():
            _require_equal(made.state_dict(), written.model.state_dict())
        found = [
            _measure(original, "float32", _weight_bytes(run), split, data),
            _measure(written, "int8", _weight_bytes(folder), split, data),
        ]
        record = {"split": split, "models": [asdict(row) for row in found], "machine": describe_machine()}
        (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return found


def _require_equal(made: dict[str, torch.Tensor], read: dict[str, torch.Tensor]) -> None:
    wrong = next((name for name, tensor in made.items() if not torch.equal(tensor, read[name])), None)
    if wrong is not None:
        raise UserError(f"{wrong} changed when it was saved and loaded: the folder was not written")


def _weight_bytes(folder: Path) -> int:
    if (folder / WEIGHTS_INDEX).is_file():
        named = set(json.loads((folder / WEIGHTS_INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        return sum((folder / name).stat().st_size for name in named)
    return next((folder / name).stat().st_size for name in (INT8_WEIGHTS, WEIGHTS) if (folder / name).is_file())


def _measure(run: LoadedRun, precision: str, size: int, split: Split | None, data: str | None) -> Measured:
    if split is None:
        return Measured(precision, size)
    found = run.evaluate(split, data=data)
    return Measured(precision, size, found.score.rows, found.metrics, found.score.rows / found.seconds)
