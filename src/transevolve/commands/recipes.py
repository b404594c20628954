"""`transevolve recipes`: lists the bundled recipes, or prints one."""

from dataclasses import dataclass, field
from pathlib import Path

from ..config.command_line import POSITIONAL


@dataclass(frozen=True)
class Options:
    """Without a name, list all recipes.

    Args:
        recipe: A recipe to print.
    """

    recipe: str | None = field(default=None, metadata=POSITIONAL)


def run(options: Options) -> int:
    from ..config.files import bundled, find_recipe
    from ..core.tables import show

    if options.recipe is not None:
        print(find_recipe(options.recipe).read_text(encoding="utf-8"), end="")
        return 0
    for title, sweeps in (("transevolve train RECIPE", False), ("transevolve sweep FILE", True)):
        show(title, ["recipe", "description"], [[name, _summary(path)] for name, path in bundled(sweeps).items()])
    return 0


def _summary(path: Path) -> str:
    """The comment on the first line."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
