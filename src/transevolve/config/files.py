"""Recipes: YAML files of typed settings, found by path or by the name of a bundled one."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from ..core.errors import UserError, nearest, suggestion
from ..core.values import read_value
from ..core.yaml_files import dump_yaml, read_yaml
from .recipe import Recipe, check_recipe

PACKAGED, CHECKOUT = Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "recipes"
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".gz")


def bundled(sweeps: bool = False) -> dict[str, Path]:
    """The recipes of the package by name (paper/agnews, demo ...), or its sweeps (sweeps/demo ...)."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    found = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.yaml"))}
    return {name: path for name, path in found.items() if sweeps == name.startswith("sweeps/")}


def find_recipe(name: str) -> Path:
    path, known = Path(name), {**bundled(), **bundled(sweeps=True)}
    short = name.removesuffix(".yaml").removeprefix("recipes/")
    if path.suffix in TABLES or path.is_dir():
        raise UserError(f"{name!r} is data, not a recipe; did you mean --data.path {name}?")
    if not path.is_file() and short not in known:
        hint = nearest(short, known) or "; `transevolve recipes` lists the bundled ones"
        raise UserError(f"no recipe {name!r}: neither a file nor the name of a bundled recipe{hint}")
    return path if path.is_file() else known[short]


def load_recipe(name: str | Path | None, *overrides: Mapping[str, Any]) -> Recipe:
    """A typed recipe: the file's settings on top of the defaults, then each of the nested overrides."""
    recipe = Recipe()
    if name is not None:
        path = find_recipe(str(name))
        fill(recipe, read_yaml(path), str(path))
    for settings in overrides:
        fill(recipe, settings)
    check_recipe(recipe)
    return recipe


def fill(options: Any, settings: Mapping[str, Any], source: str = "", prefix: str = "") -> None:
    """Sets fields from a mapping, nested or with dotted keys; each value is read by its type and checked."""
    kinds, ranges = get_type_hints(type(options)), {f.name: f.metadata.get("range") for f in fields(options)}
    for written, value in settings.items():
        where = f"{source}{f', line {written.line}' if hasattr(written, 'line') else ''}: " if source else ""
        key, _, inner = written.partition(".")
        name = prefix + key
        if key not in ranges or (inner and not is_dataclass(kinds[key])):
            raise UserError(f"{where}unknown key {prefix + written!r}{suggestion(name, [prefix + k for k in ranges])}")
        if is_dataclass(kinds[key]):
            value = {inner: value} if inner else value or {}
            if not isinstance(value, Mapping):
                raise UserError(f"{where}{name!r} must hold settings of its own, not a single value")
            fill(getattr(options, key), value, source, f"{name}.")
            continue
        try:
            typed = read_value(kinds[key], value)
        except ValueError as error:
            raise UserError(f"{where}{name}: {error}") from None
        try:
            if ranges[key] is not None and typed is not None:
                ranges[key].check(typed)
        except ValueError as error:
            raise UserError(f"{where}{name} {error}") from None
        setattr(options, key, typed)


def recipe_yaml(recipe: Recipe) -> str:
    """The recipe with every setting, as a recipe file."""
    return dump_yaml(asdict(recipe))


def dotted(recipe: Recipe) -> dict[str, Any]:
    """Every setting by its key, such as `training.epochs`."""
    sections = {f.name: getattr(recipe, f.name) for f in fields(recipe)}
    groups = {name: vars(part) if is_dataclass(part) else {"": part} for name, part in sections.items()}
    return {f"{name}.{key}".rstrip("."): value for name, part in groups.items() for key, value in part.items()}
