"""`transevolve train`: a model from a recipe, from flags, or from both."""

import json
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..config.command_line import POSITIONAL, sparse
from ..config.files import load_recipe
from ..config.recipe import ModelOptions, Recipe, TrainingOptions
from ..data.options import DataOptions

if TYPE_CHECKING:
    Data = dict[str, Any]
    Model = dict[str, Any]
    Training = dict[str, Any]
else:
    Data, Model, Training = map(sparse, (DataOptions, ModelOptions, TrainingOptions))


@dataclass(frozen=True)
class Options:
    """Flags override the settings of the recipe.

    Args:
        recipe: A recipe file, or the name of a bundled recipe (`transevolve recipes` lists them).
        output: Folder of the run.
    """

    recipe: str | None = field(default=None, metadata=POSITIONAL)
    data: Data = field(default_factory=dict)
    model: Model = field(default_factory=dict)
    training: Training = field(default_factory=dict)
    output: str | None = None

    def overrides(self) -> dict[str, Any]:
        sections = {"data": self.data, "model": self.model, "training": self.training}
        return sections if self.output is None else {**sections, "output": self.output}

    def load(self) -> Recipe:
        return load_recipe(self.recipe, self.overrides())

    def command(self) -> str:
        """The words that give these options."""
        flags = [
            f"--{section}.{key}={value if isinstance(value, str) else json.dumps(value)}"
            for section, settings in self.overrides().items()
            for key, values in (settings.items() if isinstance(settings, dict) else ())
            for value in (values if isinstance(values, list) else [values])
        ]
        output = [] if self.output is None else [f"--output={self.output}"]
        return shlex.join(["transevolve", "train", *([self.recipe] if self.recipe else []), *flags, *output])


def run(options: Options) -> int:
    recipe = options.load()
    from ..core.tables import show
    from ..runs.results import result_rows
    from ..training.train import Interrupted, train

    try:
        result = train(recipe, options.command())
    except Interrupted as stopped:
        print(f"transevolve: stopped: {stopped}", file=sys.stderr)
        return 130
    from accelerate import PartialState

    if PartialState().is_main_process:
        show(f"{recipe.output}: {result.task}", ["", ""], result_rows(result))
    return 0
