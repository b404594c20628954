"""Reads and writes the model of a run folder. Only safetensors and JSON files are read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from ..config.files import load_recipe
from ..config.recipe import Recipe
from ..core.errors import UserError
from ..core.files import copy_atomically
from ..core.json_files import read_json
from ..models.int8 import float_weights, restore
from .names import CONFIG, INT8_WEIGHTS, NOT_MODEL, RECIPE, TOKENIZER, WEIGHTS_INDEX
from .storage import check_manifest, write_manifest


def publish_model(checkpoint: Path, folder: Path) -> None:
    """Copies a checkpoint's model and tokenizer to the run folder; the manifest is written last."""
    names = model_files(checkpoint)
    for name in names:
        copy_atomically(checkpoint / name, folder / name)
    write_manifest(folder, [*names, RECIPE])


def model_files(checkpoint: Path) -> list[str]:
    """Returns the names of a checkpoint's model and tokenizer files; raises if one is damaged."""
    return [name for name in check_manifest(checkpoint) if "/" not in name and not name.startswith(NOT_MODEL)]


def check_run(folder: Path) -> None:
    """Raises UserError if the folder is not a finished run, or is damaged."""
    if not folder.exists():
        raise UserError(f"no run folder {str(folder)!r}")
    if not folder.is_dir() or not (folder / RECIPE).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RECIPE}")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} has no model yet: its training is not finished; the same train command resumes it")
    check_manifest(folder)


@contextmanager
def load_errors(folder: Path, hint: str = "") -> Iterator[None]:
    """Raises UserError if a folder cannot be loaded although its checksums match.

    The exceptions of the libraries that read it have no common base class.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{folder} does not load: {reason}{hint}") from error


def load_model(folder: Path, auto_class: Any, keep_int8: bool = True) -> PreTrainedModel:
    """Loads the model of a checked run or checkpoint in evaluation mode. Without `keep_int8`, an int8 model is
    converted to float32."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    check_weights_index(folder)
    with load_errors(folder):
        if (folder / INT8_WEIGHTS).is_file():
            return _load_int8(folder, auto_class, keep_int8)
        model = auto_class.from_pretrained(folder, trust_remote_code=False, use_safetensors=True)
    return model.eval()


def _load_int8(folder: Path, auto_class: Any, keep_int8: bool) -> PreTrainedModel:
    stored = load_file(folder / INT8_WEIGHTS)
    weights, config = float_weights(stored), AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):  # a config.json may describe a model that does not fit in memory
        planned = auto_class.from_config(config)
    shapes = {name: weight.shape for name, weight in planned.state_dict().items()}
    tied = planned.all_tied_weights_keys
    wrong = [name for name in shapes if name not in weights and name not in tied]
    wrong += [name for name, weight in weights.items() if weight.shape != shapes.get(name)]
    if wrong:
        raise UserError(
            f"{folder / INT8_WEIGHTS} belongs to another model: {min(wrong)} is missing, unknown or of another shape"
        )
    model = auto_class.from_config(config)
    model.load_state_dict(weights, strict=False)
    return (restore(model, stored) if keep_int8 else model).eval()


def check_weights_index(folder: Path) -> None:
    """Raises UserError if the index of sharded weights lists a file outside the folder."""
    path = folder / WEIGHTS_INDEX
    if not path.exists():
        return
    files = read_json(path, dict[str, Any]).get("weight_map")
    if not isinstance(files, dict):
        raise UserError(f"{path} is damaged: it has no weight_map")
    for name in files.values():
        if not isinstance(name, str) or Path(name).name != name or (folder / name).is_symlink():
            raise UserError(f"{path} lists {name!r}, which is not a file of its folder")


def load_run_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    for name in TOKENIZER:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing: the folder is damaged")
    with load_errors(folder):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def load_run_recipe(folder: Path) -> Recipe:
    """Loads the settings that the run was trained with."""
    return load_recipe(folder / RECIPE)
