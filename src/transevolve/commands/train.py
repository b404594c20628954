"""`transevolve train`: trains a model from a recipe, flags, or both."""

import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..config.command_line import POSITIONAL, sparse
from ..config.files import load_recipe, train_command
from ..config.recipe import ModelOptions, Recipe, TrainingOptions
from ..data.options import DataOptions

if TYPE_CHECKING:
    from ..kinds import Kind

    Data = dict[str, Any]
    Model = dict[str, Any]
    Training = dict[str, Any]
else:
    Data = sparse(DataOptions, {"path", "text", "label", "task"})
    Model = sparse(ModelOptions, {"variant", "hidden_size"})
    Training = sparse(TrainingOptions, {"epochs", "batch_size", "learning_rate", "seed"})


@dataclass(frozen=True)
class Options:
    """Flags override the settings of the recipe.

    Args:
        recipe: A recipe file, or the name of a bundled recipe (`transevolve recipes` lists them).
        output: Folder of the run.
        device: Device to compute on: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
    """

    recipe: str | None = field(default=None, metadata=POSITIONAL)
    data: Data = field(default_factory=dict)
    model: Model = field(default_factory=dict)
    training: Training = field(default_factory=dict)
    output: str | None = None
    device: str | None = None

    def overrides(self) -> dict[str, Any]:
        sections = {"data": self.data, "model": self.model, "training": self.training}
        return sections if self.output is None else {**sections, "output": self.output}

    def load(self) -> Recipe:
        return load_recipe(self.recipe, self.overrides())

    def command(self) -> str:
        """The command line with these options."""
        given = {}
        for section, settings in self.overrides().items():
            nested = isinstance(settings, dict)
            given |= {f"{section}.{key}": value for key, value in settings.items()} if nested else {section: settings}
        return train_command(self.recipe, given)


def run(options: Options) -> int:
    recipe = options.load()
    from ..core.devices import use_device
    from ..core.tables import show
    from ..kinds.registry import kind_of
    from ..runs.results import result_rows
    from ..training.fit import Interrupted
    from ..training.train import train

    try:
        with use_device(options.device):
            result = train(recipe, options.command())
    except Interrupted as stopped:
        print(f"transevolve: stopped: {stopped}", file=sys.stderr)
        return 130
    from accelerate import PartialState

    if PartialState().is_main_process:
        show(f"{recipe.output}: {result.task}", ["", ""], result_rows(result))
        print(_next(recipe, kind_of(recipe)))
    return 0


def _next(recipe: Recipe, kind: "Kind") -> str:
    """The written files, and suggested commands."""
    run = shlex.quote(str(recipe.output))
    lines = [f"wrote {recipe.output}: the model, its tokenizer, results.json, metrics.jsonl, curves.png; next:"]
    lines += [f'  transevolve {kind.command} {run} "a text"', f"  transevolve evaluate {run}"]
    if kind.explained and recipe.model.is_ours:
        lines.append(f'  transevolve explain {run} "a text"')
    return "\n".join([*lines, f"  transevolve export {run} --format hf"])
