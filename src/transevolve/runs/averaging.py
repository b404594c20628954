"""The mean of the weights of the last checkpoints (the paper's section 6.3), as a run of its own."""

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..core.errors import UserError
from .folder import CHECKPOINTS, NOT_MODEL, RECIPE, load_errors
from .storage import PARTIAL, check_manifest, checkpoints, full_disk_told, publish

WEIGHTS = "model.safetensors"


def last_checkpoints(run: Path, count: int) -> list[tuple[int, Path]]:
    """The newest checkpoints of a run, oldest first, all of them whole."""
    if not (run / RECIPE).is_file():
        raise UserError(f"{run} is not a run folder: it has no {RECIPE}")
    found = checkpoints(run / CHECKPOINTS)
    if count < 1 or len(found) < count:
        raise UserError(
            f"{run} has {len(found)} checkpoints, not {count}: train with training.save_steps and"
            f" training.keep={count}, or ask for fewer by --last"
        )
    for _, path in found[-count:]:
        check_manifest(path)
    return found[-count:]


def average_weights(paths: list[Path]) -> dict[str, torch.Tensor]:
    """The mean of each weight, summed in float64; counters are those of the newest checkpoint, the last of `paths`."""
    total = _weights(paths[0])
    kinds = {name: value.dtype for name, value in total.items()}
    total = {name: value.double() if value.is_floating_point() else value for name, value in total.items()}
    for path in paths[1:]:
        found = _weights(path)
        if found.keys() != total.keys() or any(found[name].shape != total[name].shape for name in found):
            raise UserError(f"{path / WEIGHTS} holds other weights than {paths[0] / WEIGHTS}: they have no mean")
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
        raise UserError(f"{output} exists already: choose another --output, or remove it")
    chosen = last_checkpoints(run, count)
    newest = chosen[-1][1]
    partial = output.with_name(f"{PARTIAL}-{output.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with full_disk_told(run, f"the average {output}"):
            partial.mkdir(parents=True)
            for file in newest.iterdir():
                if file.is_file() and file.name != WEIGHTS and not file.name.startswith(NOT_MODEL):
                    shutil.copyfile(file, partial / file.name)
            shutil.copyfile(run / RECIPE, partial / RECIPE)
            save_file(average_weights([path for _, path in chosen]), partial / WEIGHTS, metadata={"format": "pt"})
            publish(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [step for step, _ in chosen]
