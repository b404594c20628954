"""Recipes: YAML files of typed settings, by path or by the name of one that comes with the package."""

import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from ..core.errors import UserError, nearest, quoted
from ..core.yaml_files import load_plain
from .command_line import build_parser
from .recipe import Recipe

PACKAGED = Path(__file__).parents[1] / "recipes"
CHECKOUT = Path(__file__).parents[3] / "recipes"
LARGEST = 2**20


def shipped(sweeps: bool = False) -> dict[str, Path]:
    """The recipes that come with the package: paper/agnews, cpu/agnews, demo ...; or the sweeps: sweeps/demo ..."""
    folder = PACKAGED if PACKAGED.is_dir() else CHECKOUT
    found = {str(path.relative_to(folder).with_suffix("")): path for path in folder.rglob("*.yaml")}
    return dict(sorted((name, path) for name, path in found.items() if sweeps == name.startswith("sweeps/")))


def summary(path: Path) -> str:
    """A recipe's first line of comment."""
    first = path.read_text(encoding="utf-8").splitlines()[:1]
    return first[0].removeprefix("#").strip() if first and first[0].startswith("#") else ""


def find_recipe(name: str) -> Path:
    path = Path(name)
    if path.is_file():
        return path
    recipes = {**shipped(), **shipped(sweeps=True)}
    known = name.removesuffix(".yaml").removeprefix("recipes/")
    if known in recipes:
        return recipes[known]
    hint = nearest(known, recipes) or "; `transevolve recipes` lists those that come with the package"
    raise UserError(f"no recipe {name!r}: it is neither a file nor the name of a recipe{hint}")


def read_settings(path: Path) -> dict[str, Any]:
    """A YAML file of settings; only plain values can stand in it."""
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} has {path.stat().st_size:,} bytes: that is no recipe")
        content = load_plain(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{path}{where}: not valid YAML: {problem}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UserError(f"{path} holds {_kind(content)}, not settings such as `training: {{epochs: 3}}`")
    return content


def as_arguments(path: Path) -> list[str]:
    """A recipe as the flags it stands for."""
    arguments: list[str] = []
    _flatten(Recipe, read_settings(path), "", path, arguments)
    return arguments


def _flatten(options: type, settings: dict[str, Any], prefix: str, path: Path, arguments: list[str]) -> None:
    hints = get_type_hints(options)
    names = [f.name for f in fields(options)]
    for key, value in settings.items():
        if key not in names:
            hint = nearest(f"{prefix}{key}", [prefix + n for n in names]) or f"; there are {quoted(names)}"
            raise UserError(f"{path}: unknown key '{prefix}{key}'{hint}")
        if is_dataclass(hints[key]):
            if not isinstance(value, dict):
                raise UserError(f"{path}: '{prefix}{key}' must hold settings of its own, not {_kind(value)}")
            _flatten(hints[key], value, f"{prefix}{key}.", path, arguments)
        else:
            arguments.append(f"--{prefix}{key}={_plain(value, f'{prefix}{key}', path)}")


def _plain(value: Any, key: str, path: Path) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise UserError(f"{path}: '{key}' cannot be {_kind(value)}") from None


def _kind(value: Any) -> str:
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    return kinds.get(type(value), f"a {type(value).__name__}")


def recipe_yaml(recipe: Recipe) -> str:
    """The recipe with every setting resolved: itself a recipe."""
    return yaml.safe_dump(asdict(recipe), sort_keys=False, allow_unicode=True, width=120)


def recipe_from(arguments: list[str], program: str = "transevolve train") -> Recipe:
    """The recipe that flags give, checked as the command line checks them."""
    from .command_line import parse

    parsed = parse(Recipe, arguments, program, "")
    assert parsed is not None
    return parsed


def known_keys() -> list[str]:
    """Every key of a recipe, in order."""
    return [action.dest for action in build_parser(Recipe, "", "")._actions if "." in action.dest]
