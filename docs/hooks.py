"""Fills in the reference when the site is built: commands, recipe keys and public names, from the code itself.

A page asks by a line `<!-- generated: NAME -->`, where NAME is a key of `PARTS`.
"""

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib import import_module
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import docstring_parser

MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARKER.sub(lambda found: PARTS[found[1]](), markdown)


def commands() -> str:
    """Every command with its usage and options."""
    from transevolve_cli import COMMANDS

    return "\n\n".join(_command(name, command) for name, command in COMMANDS.items())


def _command(name: str, command: Any) -> str:
    options = import_module(command.module).Options
    places = [f for f in fields(options) if f.metadata.get("positional")]
    usage = " ".join([f"transevolve {name}", *map(_place, places), "[OPTIONS]" if len(fields(options)) else ""]).strip()
    told = docstring_parser.parse(options.__doc__ or "")
    parts = [f"## {name}", f"{_sentence(command.summary)} {_flat(_about(told))}", f"```\n{usage}\n```"]
    if name == "train":
        parts.append("Its options are the [keys of a recipe](recipe.md): `--data.path F`, `--training.epochs N` ...")
    elif fields(options):
        parts.append(_table(["option", "type", "default", "meaning"], _options(options)))
    return "\n\n".join(parts)


def _place(f: Field) -> str:
    many = f.default_factory is list
    shown = f"{f.name.upper()}{' ...' if many or f.name == 'paths' else ''}"
    return shown if _required(f) else f"[{shown}]"


def _options(options: type) -> Iterator[list[str]]:
    hints, meanings = get_type_hints(options), _meanings(options)
    for f in fields(options):
        name = f.name.upper() if f.metadata.get("positional") else f"--{f.name}"
        kind = "flag" if hints[f.name] is bool else _type(hints[f.name])
        yield [f"`{name}`", kind, "" if kind == "flag" else _default(f), meanings[f.name]]


def recipe() -> str:
    """Every key of a recipe, by its group; of `data`, which tasks use it."""
    from transevolve.config.recipe import Recipe

    parts, hints, meanings = [], get_type_hints(Recipe), _meanings(Recipe)
    for f in fields(Recipe):
        kind = hints[f.name]
        if is_dataclass(kind):
            about = _flat(_about(docstring_parser.parse(kind.__doc__ or "")))
            columns = ["key", "type", "default", "meaning", *(["tasks"] if f.name == "data" else [])]
            parts += [f"## {f.name}", about, _table(columns, _keys(f.name, kind))]
        else:
            parts += [f"## {f.name}", f"`{f.name}`, {_type(hints[f.name])}: {meanings[f.name]}"]
    return "\n\n".join(parts)


def _keys(group: str, kind: type) -> Iterator[list[str]]:
    hints, meanings = get_type_hints(kind), _meanings(kind)
    for f in fields(kind):
        row = [f"`{group}.{f.name}`", _type(hints[f.name]), _default(f), meanings[f.name]]
        yield [*row, _users(f.name)] if group == "data" else row


def _users(key: str) -> str:
    """The tasks that use a key of `data`; all use task, seed and cache."""
    from transevolve.data import TASKS

    users = [name for name, task in TASKS.items() if key in task.uses]
    others = [name for name in TASKS if name not in users]
    if not users or not others:
        return "all"
    return f"all but {others[0]}" if len(others) == 1 else ", ".join(users)


def tasks() -> str:
    """Every task in a table."""
    from transevolve.data import TASKS

    return _table(["task", "what", "kind"], ([f"`{n}`", t.summary, t.kind] for n, t in TASKS.items()))


def names() -> str:
    """The public names, for mkdocstrings to describe."""
    import transevolve

    return "\n\n".join(f"::: transevolve.{name}" for name in transevolve.__all__)


def configuration() -> str:
    """The settings of TransEvolveConfig, and the fields that only a configuration has."""
    from transevolve import TransEvolveConfig
    from transevolve.models.settings import ModelSettings

    own = vars(TransEvolveConfig)["__annotations__"]
    declared = [*fields(ModelSettings), *(f for f in fields(TransEvolveConfig) if f.name in own)]
    rows = ([f"`{f.name}`", _type(f.type), _default(f), f.metadata.get("help", "")] for f in declared)
    return _table(["field", "type", "default", "meaning"], rows)


def _meanings(options: type) -> dict[str, str]:
    """What the `Args:` of a dataclass and its bases say; a field that they leave out is an error."""
    documented = [docstring_parser.parse(kind.__doc__ or "") for kind in reversed(options.__mro__)]
    found = {p.arg_name: _flat(p.description or "") for told in documented for p in told.params}
    missing = [f.name for f in fields(options) if not found.get(f.name)]
    if missing:
        raise ValueError(f"{options.__module__}.{options.__name__} does not document {', '.join(missing)}")
    return found


def _required(f: Field) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _default(f: Field) -> str:
    if _required(f):
        return "required"
    value = f.default_factory() if f.default_factory is not MISSING else f.default
    if value is None or value == []:
        return ""
    shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"`{shown.lower() if isinstance(value, bool) else shown}`"


def _type(kind: Any) -> str:
    """A type as a reader calls it: `int | None` is a whole number, a Literal its values."""
    inner = get_args(kind)
    if get_origin(kind) is list:
        return f"{_type(inner[0])} ..."
    if get_origin(kind) is dict:
        return "mapping"
    if get_origin(kind) is Literal:
        return " or ".join(map(str, inner))
    if inner:
        return " or ".join(_type(one) for one in inner if one is not NoneType)
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[kind]


def _about(told: docstring_parser.Docstring) -> str:
    return " ".join(filter(None, (told.short_description, told.long_description)))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _table(columns: list[str], rows: Iterator[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS = {"commands": commands, "recipe": recipe, "tasks": tasks, "names": names, "configuration": configuration}
