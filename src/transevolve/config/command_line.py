"""A dataclass of options is a command line: one declaration gives names, types, defaults and help.

Fields are `--name value`; a list is `--name a b c`, a bool a bare `--name`, a dataclass `--name.field value`; a field
with `metadata=POSITIONAL` is given by its place. Help comes from the `Args:` of the docstring.
"""

import re
import sys
import types
from argparse import ArgumentError
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import docstring_parser
import yaml
from jsonargparse import ArgumentParser, set_loader
from jsonargparse import _typehints as typehints

from ..core.errors import UserError, nearest
from ..core.yaml_files import load_plain

T = TypeVar("T")


POSITIONAL = {"positional": True}
set_loader("plain", load_plain, (yaml.YAMLError,))
# Numbers and truth values it would still read by the parser in C, whatever the mode; some values crash that.
typehints.basic_json_or_yaml_load = load_plain  # pyright: ignore[reportPrivateImportUsage]


def parse(options: type[T], arguments: list[str], program: str, summary: str) -> T | None:
    """The options that the arguments give, or None where help was asked for, and printed."""
    _require_text(arguments)
    parser = build_parser(options, program, summary)
    if "-h" in arguments or "--help" in arguments:
        parser.print_help(sys.stdout)
        return None
    try:
        parsed = parser.parse_args(_places_last(options, arguments))
    except ArgumentError as error:
        raise UserError(_complaint(error, parser, options, program)) from error
    return options(**vars(parser.instantiate(parsed)))


def _require_text(arguments: list[str]) -> None:
    """What is no UTF-8 can neither be printed nor be learned from, and no file name holds a NUL."""
    for word in arguments:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"{word!a} holds a NUL or bytes that are not UTF-8: write it as text")


@cache
def build_parser(options: type, program: str, summary: str) -> ArgumentParser:
    """Made once: with all its keys, `train` takes a twentieth of a second to make."""
    parser = ArgumentParser(
        prog=program, description=summary, exit_on_error=False, allow_abbrev=False, parser_mode="plain"
    )
    hints, helps = get_type_hints(options), _helps(options)
    for f in fields(options):
        _add(parser, f, hints[f.name], helps.get(f.name))
    return parser


def _places_last(options: type, arguments: list[str]) -> list[str]:
    """Flags first, then what is given by its place: argparse would not find texts that come after a flag."""
    hints = get_type_hints(options)
    if not any(f.metadata.get("positional") and get_origin(hints[f.name]) is list for f in fields(options)):
        return arguments
    flags: list[str] = []
    places: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            places += waiting
            break
        if not word.startswith("--"):
            places.append(word)
            continue
        flags.append(word)
        kind = hints.get(word.removeprefix("--"))
        if "=" in word or kind is bool:
            continue
        while waiting and not waiting[0].startswith("--"):
            flags.append(waiting.pop(0))
            if get_origin(kind) is not list:
                break
    return [*flags, "--", *places] if places else flags


def _helps(options: type) -> dict[str, str | None]:
    documented = [docstring_parser.parse(kind.__doc__ or "") for kind in reversed(options.__mro__)]
    return {p.arg_name: p.description for docstring in documented for p in docstring.params}


def _add(parser: ArgumentParser, f: Field, kind: Any, help: str | None) -> None:
    required = f.default is MISSING and f.default_factory is MISSING
    default = f.default_factory() if f.default_factory is not MISSING else f.default
    positional = f.metadata.get("positional", False)
    settings: dict[str, Any] = {"help": help}
    if kind is bool:
        settings["action"] = "store_true"
    elif get_origin(kind) is list:
        (settings["type"],) = get_args(kind)
        settings["nargs"] = "*" if positional and not required else "+"
    else:
        settings["type"] = kind
        if positional and not required:
            settings["nargs"] = "?"
    if not required:
        settings["default"] = default
    elif not positional:
        settings["required"] = True
    parser.add_argument(f.name if positional else f"--{f.name}", **settings)


def _complaint(error: ArgumentError, parser: ArgumentParser, options: type, program: str) -> str:
    """What jsonargparse objects to, in one line, with the nearest name that would have done."""
    message = " ".join(str(error.message).split())
    end = f"; see `{program} --help`"
    if message.lower().startswith("unrecognized arguments:"):
        unknown = message.split(":", 1)[1].split()
        name = next((word.split("=")[0] for word in unknown if word.startswith("-")), None)
        if name is None:
            return f"unexpected argument {' '.join(unknown[:1])!r}{end}"
        return f"unknown option {name!r}" + (nearest(name, parser._option_string_actions) or end)
    for key in re.findall(r'"([\w.]+)"', message):
        found = _find(options, key)
        if found is not None:
            given = message.rsplit("alue: ", 1)[-1]
            shown = key.upper() if found[0].metadata.get("positional") else f"--{key}"
            return f"{shown}: {given!r} is not {_expected(found[1], given)}"
    return message + end


def _find(options: type, key: str) -> tuple[Field, Any] | None:
    """The field that a dotted key names, and its type."""
    first, _, rest = key.partition(".")
    hints = get_type_hints(options)
    for f in fields(options):
        if f.name == first:
            return _find(hints[first], rest) if rest and is_dataclass(hints[first]) else (f, hints[first])
    return None


def _expected(kind: Any, given: str) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind))) + nearest(given, get_args(kind))
    if get_origin(kind) in (list, Union, types.UnionType):
        return _expected(get_args(kind)[0], given)
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(
        kind, f"a {getattr(kind, '__name__', kind)}"
    )
