"""Averages the weights of the last checkpoints (the paper's section 6.3) into a new run."""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..core.errors import UserError
from ..core.files import copy_atomically, staging_folder
from .folder import load_errors, model_files
from .names import CHECKPOINTS, DATA, RECIPE, WEIGHTS
from .storage import check_manifest, checkpoints, publish


def last_checkpoints(run: Path, count: int) -> list[tuple[int, Path]]:
    """Returns the newest checkpoints of a run, oldest first; raises if one is damaged."""
    if not (run / RECIPE).is_file():
        raise UserError(f"{run} is not a run folder: it has no {RECIPE}")
    found = checkpoints(run / CHECKPOINTS)
    if count < 1 or len(found) < count:
        raise UserError(
            f"{run} has {len(found)} checkpoints, not {count}: train with training.save_steps and"
            f" training.keep={count}, or use a smaller --last"
        )
    for _, path in found[-count:]:
        check_manifest(path)
    return found[-count:]


def average_weights(paths: list[Path]) -> dict[str, torch.Tensor]:
    """Returns the mean of each weight, summed in float64; counters are those of the last of `paths`."""
    total = _weights(paths[0])
    kinds = {name: value.dtype for name, value in total.items()}
    total = {name: value.double() if value.is_floating_point() else value for name, value in total.items()}
    for path in paths[1:]:
        found = _weights(path)
        if found.keys() != total.keys() or any(found[name].shape != total[name].shape for name in found):
            raise UserError(f"{path / WEIGHTS} and {paths[0] / WEIGHTS} have different weights: cannot average them")
        for name, value in found.items():
            if value.is_floating_point():
                total[name] += value.double()
            elif value.ndim == 0:
                total[name] = value
            elif not torch.equal(total[name], value):
                raise UserError(f"{path / WEIGHTS}: {name} differs between checkpoints and is not a weight")
    return {
        name: (value / len(paths)).to(kinds[name]).contiguous() if kinds[name].is_floating_point else value
        for name, value in total.items()
    }


def _weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    with load_errors(checkpoint):
        return load_file(checkpoint / WEIGHTS)


def average(run: Path, count: int, output: Path) -> list[int]:
    """Writes a run folder with the mean of the last checkpoints; returns their steps."""
    if output.exists():
        raise UserError(f"{output} already exists: choose another --output, or remove it")
    chosen = last_checkpoints(run, count)
    write_average([path for _, path in chosen], output, [run / name for name in (RECIPE, DATA)])
    return [step for step, _ in chosen]


def write_average(paths: list[Path], output: Path, others: Sequence[Path] = ()) -> None:
    """Writes a folder with the mean of the weights of `paths`, and the other files of the last one."""
    newest = paths[-1]
    with staging_folder(output) as partial:
        for name in model_files(newest):
            if name != WEIGHTS:
                copy_atomically(newest / name, partial / name)
        for path in others:
            if path.is_file():
                copy_atomically(path, partial / path.name)
        save_file(average_weights(paths), partial / WEIGHTS, metadata={"format": "pt"})
        publish(partial, output)
