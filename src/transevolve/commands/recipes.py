"""`transevolve recipes`: what comes with the package; with a name, that recipe, to copy and change."""

from dataclasses import dataclass, field

from ..config.command_line import POSITIONAL


@dataclass(frozen=True)
class Options:
    """Without a name, all of them.

    Args:
        recipe: A recipe to print.
    """

    recipe: str | None = field(default=None, metadata=POSITIONAL)


def run(options: Options) -> int:
    from ..config.files import find_recipe, shipped, summary
    from ..core.tables import show

    if options.recipe is not None:
        print(find_recipe(options.recipe).read_text(encoding="utf-8"), end="")
        return 0
    for title, sweeps in (("transevolve train RECIPE", False), ("transevolve sweep FILE", True)):
        show(title, ["recipe", "what"], [[name, summary(path)] for name, path in shipped(sweeps).items()])
    return 0
