"""Recipes: YAML files of typed settings, loaded by path or by the name of a bundled recipe."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from ..core.errors import UserError, nearest, suggestion
from ..core.values import read_value
from ..core.yaml_files import dump_yaml, read_yaml
from .recipe import Recipe

PACKAGED, CHECKOUT = Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "recipes"
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".gz")


def bundled(sweeps: bool = False) -> dict[str, Path]:
    """Returns the bundled recipes by name (paper/agnews, demo ...), or the bundled sweeps (sweeps/demo ...)."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    found = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}
    return {name: path for name, path in found.items() if sweeps == name.startswith("sweeps/")}


def find_recipe(name: str) -> Path:
    path, known = Path(name), {**bundled(), **bundled(sweeps=True)}
    short = name.removesuffix(".yaml").removeprefix("recipes/")
    if short not in known and (path.suffix in TABLES or path.is_dir()):
        raise UserError(f"{name!r} is data, not a recipe; did you mean --data.path {name}?")
    if not path.is_file() and short not in known:
        hint = nearest(short, known) or "; `transevolve recipes` lists the bundled ones"
        raise UserError(f"no recipe {name!r}: neither a file nor the name of a bundled recipe{hint}")
    return path if path.is_file() else known[short]


def load_recipe(name: str | Path | None, *overrides: Mapping[str, Any]) -> Recipe:
    """Loads a recipe: the defaults, then the settings of the file, then each of the overrides."""
    recipe = Recipe()
    if name is not None:
        path = find_recipe(str(name))
        fill(recipe, read_yaml(path), str(path))
    for settings in overrides:
        fill(recipe, settings)
    return recipe


def fill(options: Any, settings: Mapping[str, Any], source: str = "", prefix: str = "") -> None:
    """Sets fields from a nested mapping or dotted keys; values are converted to their type and checked."""
    kinds, declared = get_type_hints(type(options)), {f.name: f for f in fields(options)}
    for written, value in settings.items():
        line = getattr(written, "line", None)
        where = "" if not source else f"{source}: " if line is None else f"{source}, line {line}: "
        key, dot, inner = written.partition(".")
        if key not in declared or (dot and not is_dataclass(kinds[key])):
            known = suggestion(prefix + written, [prefix + name for name in declared])
            raise UserError(f"{where}unknown key {prefix + written!r}{known}")
        if is_dataclass(kinds[key]):
            section = {inner: value} if dot else value or {}
            if not isinstance(section, Mapping):
                raise UserError(f"{where}{prefix + key!r} must contain settings, not a single value")
            fill(getattr(options, key), section, source, f"{prefix}{key}.")
            continue
        try:
            setattr(options, key, read_value(kinds[key], value, declared[key].metadata.get("range")))
        except ValueError as error:
            raise UserError(f"{where}{prefix}{key}: {error}") from None


def train_command(recipe: str | None, settings: Mapping[str, Any]) -> str:
    """The command line of a training with settings by their dotted keys."""
    flags = [
        f"--{key}={value if isinstance(value, str | Path) else json.dumps(value, default=str)}"
        for key, values in settings.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return shlex.join(["transevolve", "train", *([recipe] if recipe else []), *flags])


def recipe_yaml(recipe: Recipe) -> str:
    """Returns the recipe with all settings as YAML."""
    return dump_yaml(asdict(recipe))


def dotted(recipe: Recipe) -> dict[str, Any]:
    """Returns all settings by dotted key, such as `training.epochs`."""
    sections = {f.name: getattr(recipe, f.name) for f in fields(recipe)}
    groups = {name: vars(part) if is_dataclass(part) else {"": part} for name, part in sections.items()}
    return {f"{name}.{key}".rstrip("."): value for name, part in groups.items() for key, value in part.items()}
