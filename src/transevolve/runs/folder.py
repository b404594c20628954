"""A run folder: where things are in it, and how a model is read from it. Only safetensors and JSON are read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from ..config.files import as_arguments, recipe_from
from ..config.recipe import Recipe
from ..core.errors import UserError
from .storage import check_manifest, write_manifest

CHECKPOINTS = "checkpoints"
RECIPE = "recipe.yaml"
RESULTS = "results.json"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
NOT_MODEL = (
    "optimizer",
    "scheduler",
    "rng_state",
    "trainer_state",
    "manifest",
    "scaler",
    "pytorch_model_fsdp",
    "unlogged",
)


def publish_model(checkpoint: Path, folder: Path) -> None:
    """Copies a checkpoint's model and tokenizer to the top of the run; the manifest comes last."""
    check_manifest(checkpoint)
    names = [p.name for p in checkpoint.iterdir() if p.is_file() and not p.name.startswith(NOT_MODEL)]
    for name in names:
        part = folder / f".{name}.part"
        shutil.copyfile(checkpoint / name, part)
        part.replace(folder / name)
    write_manifest(folder, [*names, RECIPE])


def check_run(folder: Path) -> None:
    """One clear line if the folder is not a finished run, or is damaged."""
    if not folder.exists():
        raise UserError(f"no run folder {str(folder)!r}")
    if not folder.is_dir() or not (folder / RECIPE).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RECIPE}")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no model yet: its training is not finished; the same train command goes on")
    check_manifest(folder)


@contextmanager
def load_errors(folder: Path, hint: str = "") -> Iterator[None]:
    """One line for a folder with sums that are right and contents that are not.

    Four libraries read them, and what these raise has no common class.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{folder} does not load: {reason}{hint}") from error


def load_model(folder: Path, auto_class: Any) -> PreTrainedModel:
    """The model of a folder that has been checked: a run's, or a checkpoint's."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with load_errors(folder):
        model = auto_class.from_pretrained(folder, trust_remote_code=False, use_safetensors=True)
    return model.eval()


def load_run_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    for name in TOKENIZER:
        if not (folder / name).is_file():
            raise UserError(f"{folder / name} is missing: the folder is damaged")
    with load_errors(folder):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def load_run_recipe(folder: Path) -> Recipe:
    """The settings the run was trained with."""
    return recipe_from(as_arguments(folder / RECIPE))
