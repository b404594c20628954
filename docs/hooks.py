"""Run when the site is built: fills in the reference, and makes the search work from the disk.

Commands, recipe keys and public names are generated from the code. In a page, a line `<!-- generated: NAME -->` is
replaced by the part NAME, a key of `PARTS`.
"""

import inspect
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARKER.sub(lambda found: PARTS[found[1]](), markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end: the script of the search, and its documents as a script."""
    folder = Path(config["site_dir"]) / "search"
    documents = json.loads((folder / "search_index.json").read_text(encoding="utf-8"))["docs"]
    (folder / "documents.js").write_text(f"var searchDocuments = {json.dumps(documents)};\n", encoding="utf-8")
    shutil.copyfile(Path(__file__).with_name("search.js"), folder / "main.js")


def commands() -> str:
    """Every command with its usage and options."""
    from transevolve.cli import COMMANDS

    return "\n\n".join(_command(name, summary) for name, summary in COMMANDS.items())


def _command(name: str, summary: str) -> str:
    from transevolve.cli import arguments_of, module_of

    arguments = [argument for argument in arguments_of(name) if argument.show]
    places = [argument for argument in arguments if argument.index is not None]
    usage = " ".join([f"transevolve {name}", *map(_place, places), "[OPTIONS]" if arguments else ""]).strip()
    about = _flat((inspect.getdoc(module_of(name).Options) or "").partition("\n\nArgs:")[0])
    parts = [f"## {name}", f"{summary} {about}", f"```\n{usage}\n```"]
    if name in ("train", "plan"):
        parts.append("Its options are the [keys of a recipe](recipe.md): `--data.path F`, `--training.epochs N` ...")
    elif arguments:
        parts.append(_table(["option", "type", "default", "meaning"], map(_option, arguments)))
    return "\n\n".join(parts)


def _place(argument: Any) -> str:
    many = argument.field_info.kind is inspect.Parameter.VAR_POSITIONAL
    shown = f"{argument.name.lstrip('-').upper()}{' ...' if many else ''}"
    return shown if argument.required else f"[{shown}]"


def _option(argument: Any) -> list[str]:
    name = argument.name.lstrip("-").upper() if argument.index is not None else argument.name
    if not argument.parameter.help:
        raise ValueError(f"{argument.name} has no help")
    kind = "flag" if argument.hint is bool else _type(argument.hint)
    default = argument.field_info.default
    default = MISSING if argument.required else None if default is inspect.Parameter.empty else default
    return [f"`{name}`", kind, "" if kind == "flag" else _default(default), _flat(argument.parameter.help)]


def recipe() -> str:
    """Every key of a recipe, by section; those of `data` with the tasks that use them."""
    from transevolve.config.recipe import Recipe

    parts, kinds = [], get_type_hints(Recipe)
    for f in fields(Recipe):
        kind = kinds[f.name]
        if is_dataclass(kind):
            columns = ["key", "type", "default", "meaning", *(["tasks"] if f.name == "data" else [])]
            rows = (row + ([_users(key)] if f.name == "data" else []) for key, row in _settings(kind, f"{f.name}."))
            parts += [f"## {f.name}", _flat(inspect.getdoc(kind) or ""), _table(columns, rows)]
        else:
            parts += [f"## {f.name}", f"`{f.name}`, {_type(kind)}: {f.metadata['help']}"]
    return "\n\n".join(parts)


def _settings(kind: Any, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    kinds = get_type_hints(kind)
    for f in fields(kind):
        yield f.name, [f"`{prefix}{f.name}`", _type(kinds[f.name]), _default(_initial(f)), f.metadata["help"]]


def _users(key: str) -> str:
    """The tasks that use a key of `data`; all use task, seed and cache."""
    from transevolve.kinds.registry import TASKS

    users = [name for name, task in TASKS.items() if key in task.uses]
    others = [name for name in TASKS if name not in users]
    if not users or not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(users) else ", ".join(users)


def tasks() -> str:
    """Every task in a table."""
    from transevolve.kinds.registry import TASKS

    return _table(["task", "what", "kind"], ([f"`{n}`", t.summary, t.kind] for n, t in TASKS.items()))


def names() -> str:
    """The public names, for mkdocstrings to describe."""
    import transevolve

    return "\n\n".join(f"::: transevolve.{name}" for name in transevolve.__all__)


def configuration() -> str:
    """The settings of TransEvolveConfig; its docstring says more."""
    from transevolve.models.settings import ModelSettings

    return _table(["field", "type", "default", "meaning"], (row for _, row in _settings(ModelSettings)))


def _initial(f: Field) -> Any:
    return f.default if f.default_factory is MISSING else f.default_factory()


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or value == []:
        return ""
    shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"`{shown.lower() if isinstance(value, bool) else shown}`"


def _type(kind: Any) -> str:
    """The name of a type in the reference: `int | None` is an integer, a Literal its values."""
    inner = get_args(kind)
    if get_origin(kind) in (list, tuple):
        return f"{_type(inner[0])} ..."
    if get_origin(kind) is dict:
        return "mapping"
    if get_origin(kind) is Literal:
        return " or ".join(map(str, inner))
    if inner:
        return " or ".join(_type(one) for one in inner if one is not NoneType)
    return {str: "string", int: "integer", float: "number", bool: "true or false"}[kind]


def _flat(text: str) -> str:
    return " ".join(text.split())


def _table(columns: list[str], rows: Iterable[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PARTS = {"commands": commands, "recipe": recipe, "tasks": tasks, "names": names, "configuration": configuration}
