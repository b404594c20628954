"""`transevolve train`: a model from a recipe, from flags, or from both."""

import shlex
import sys
from dataclasses import dataclass, field, fields

from ..config.command_line import POSITIONAL
from ..config.recipe import Recipe


@dataclass
class Options(Recipe):
    """Settings given as flags come after those of the recipe.

    Args:
        recipe: A recipe's file, or the name of one that comes with the package (`transevolve recipes`).
    """

    recipe: str | None = field(default=None, metadata=POSITIONAL)


def expand(arguments: list[str]) -> list[str]:
    """A recipe becomes the flags it stands for; what was typed comes after them, and wins."""
    from ..config.files import as_arguments, find_recipe

    if not arguments or arguments[0].startswith("-"):
        return arguments
    return [arguments[0], *as_arguments(find_recipe(arguments[0])), *arguments[1:]]


def run(options: Options) -> int:
    from ..core.tables import show
    from ..runs.results import result_rows
    from ..training.train import Interrupted, train

    recipe = Recipe(**{f.name: getattr(options, f.name) for f in fields(Recipe)})
    try:
        result = train(recipe, "transevolve " + shlex.join(sys.argv[1:]))
    except Interrupted as stopped:
        print(f"transevolve: stopped: {stopped}", file=sys.stderr)
        return 130
    from accelerate import PartialState

    if PartialState().is_main_process:
        show(f"{recipe.output}: {result.task}", ["", ""], result_rows(result))
    return 0
