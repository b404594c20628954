"""Training and runs from Python: `transevolve.train(...)` and `transevolve.load("run")`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import torch

from .config.files import load_recipe, train_command
from .config.recipe import Recipe
from .core.devices import use_device
from .core.errors import UserError, suggestion
from .data.frames import is_frame, stored
from .inference.run import LoadedRun, load_as
from .runs.metrics_file import MetricsFile
from .runs.names import RESULTS
from .runs.results import Result, describe, read_results

if TYPE_CHECKING:
    import pandas as pd

    from .explain.observe import Observation


class Run(LoadedRun):
    """A trained model with its recipe and results, returned by `transevolve.train` and `transevolve.load`."""

    @property
    def results(self) -> Result | None:
        """The content of results.json; None if there is none, such as for averaged checkpoints."""
        path = self.folder / RESULTS
        return read_results(path) if path.exists() else None

    @property
    def metrics(self) -> "pd.DataFrame":
        """The metrics logged during training, one row per log."""
        import pandas as pd

        return pd.DataFrame(MetricsFile(self.folder).rows())

    def explain(self, text: str, output: str | Path | None = None, tokens: int = 48) -> "Explanation":
        """Show how a TransEvolve classifier processes a text, depth by depth, on a page.

        Args:
            text: The text.
            output: The page; by default explain.html in the run's folder.
            tokens: Tokens of a long text that are shown.
        """
        from .explain.explain import write_explanation
        from .explain.observe import Observer

        page = Path(output or self.folder / "explain.html")
        observer = Observer(self.folder, self.session.device)
        return Explanation(write_explanation(observer, text, page, tokens), page)

    def __repr__(self) -> str:
        count, result = sum(weight.numel() for weight in self.model.parameters()), self.results
        facts = [self.kind.name, describe(self.recipe), f"{count:,} parameters"]
        scores = {} if result is None else {"test": result.test, "validation": result.validation}
        split = next((split for split, found in scores.items() if found), None)
        if result is not None and split is not None:
            facts.append(f"{split} {result.selected_by} {(scores[split] or {})[result.selected_by]:.4f}")
        return f"Run({str(self.folder)!r}: {', '.join([*facts, str(self.session.device)])})"


@dataclass(frozen=True)
class Explanation:
    """The observation and its page; a notebook displays the page."""

    observed: "Observation"
    page: Path

    def __repr__(self) -> str:
        best = self.observed.prediction
        return f"Explanation({self.observed.labels[best]} {self.observed.readout[-1, best]:.4f}, {str(self.page)!r})"

    def _repr_html_(self) -> str:
        content = escape(self.page.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{content}" style="width:100%;height:640px;border:0"></iframe>'


def load(folder: str | Path, device: str | torch.device | None = None, *, batch_tokens: int | None = None) -> Run:
    """Load the model of a run folder, checked against its manifest.

    Args:
        folder: The run folder.
        device: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
        batch_tokens: Tokens per batch; by default the recipe's training.eval_tokens.
    """
    return load_as(Run, folder, device, batch_tokens)


def train(
    data: Any = None,
    output: str | Path | None = None,
    *,
    recipe: str | Path | None = None,
    device: str | None = None,
    **settings: Any,
) -> Run:
    """Train a model, score it, and return the run; the same call resumes an interrupted run.

    Args:
        data: A file or folder; a DataFrame; a mapping of train, validation and test to DataFrames; or a mapping of
            settings of `data`, as in a recipe.
        output: Folder of the run.
        recipe: A recipe file, or the name of a bundled recipe.
        device: cpu, cuda, cuda:1 ...; by default the first GPU, or the CPU.
        settings: Any setting of a recipe: by its name (epochs=3), nested (training={"epochs": 3}), or by its dotted
            name (**{"training.epochs": 3}).
    """
    from .training.train import train as run_training

    found = _sections(settings)
    if data is not None:
        plain = isinstance(data, Mapping) and not any(map(is_frame, data.values()))
        found = _sections({"data": data} if plain else {"data.path": stored(data, found.get("data.cache"))}) | found
    if output is not None:
        found["output"] = str(output)
    name = None if recipe is None else str(recipe)
    chosen = load_recipe(name, found)
    with use_device(device):
        run_training(chosen, train_command(name, found))
        return load(str(chosen.output), device)


def _sections(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their dotted names; the section may be omitted if the name is unique."""
    sections = {name: kind for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind)}
    names = {section: {field.name for field in fields(kind)} for section, kind in sections.items()}
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if key in sections and isinstance(value, Mapping):
            found |= {f"{key}.{name}": inner for name, inner in value.items()}
            continue
        homes = [section for section in sections if key in names[section]]
        if len(homes) > 1:
            choices = " or ".join(f'**{{"{section}.{key}": ...}}' for section in homes)
            raise UserError(f"{key!r} is a setting of {' and of '.join(homes)}: write {choices}")
        if not homes and "." not in key:
            raise UserError(f"unknown setting {key!r}{suggestion(key, {n for own in names.values() for n in own})}")
        found[f"{homes[0]}.{key}" if homes else key] = value
    return found
