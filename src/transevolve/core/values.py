"""Parses setting values the same way from flags, YAML and Python."""

import re
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ruamel.yaml.error import YAMLError

from .errors import nearest
from .settings import Range
from .yaml_files import parse_yaml

TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a string", dict: "a mapping"}


def read_value(kind: Any, value: Any, within: Range | None = None) -> Any:
    """Converts a value to `kind` and checks its range; raises ValueError with the expected type."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if NoneType in kinds and (value is None or (value == "null" and str not in kinds)):
        return None
    lists = [one for one in kinds if get_origin(one) is list]
    scalars = [one for one in kinds if one is not NoneType and one not in lists]
    if lists and scalars and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if lists and (isinstance(value, list) or not scalars):
        return [read_value(get_args(lists[0])[0], item) for item in (value if isinstance(value, list) else [value])]
    for one in scalars:
        try:
            found = _read(one, value)
        except (ValueError, TypeError, LookupError, OverflowError, AttributeError, YAMLError):
            continue
        if within is not None:
            within.check(found)
        return found
    choices = [str(choice) for one in scalars if get_origin(one) is Literal for choice in get_args(one)]
    names = map(repr, choices) if choices else (NAMES[get_origin(one) or one] for one in scalars)
    shown = repr(str(value) if isinstance(value, str) else value)
    raise ValueError(f"{shown:.80} is not {' or '.join(names)}{nearest(str(value), choices)}")


def _read(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}[str(value)]
    if get_origin(kind) is dict:
        content = parse_yaml(value) if isinstance(value, str) else value
        return {str(key): read_value(get_args(kind)[1], item) for key, item in content.items()}
    if not isinstance(value, str):
        return kind(value) if type(value) in {int: (int,), float: (int, float)}.get(kind, (kind, int)) else {}[value]
    value.encode()  # rejects lone surrogates, which cannot be printed or saved; file names cannot contain NUL
    if "\0" in value or (kind is float and not isfinite(float(value))):
        raise ValueError(value)
    return {int: lambda text: int(text, 0), bool: lambda text: TRUTH[text.lower()]}.get(kind, kind)(value)


def parse_bytes(text: str) -> int:
    """Returns the number of bytes in "4GB" (10^9), "4GiB" (2^30), "512MB" ..."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"memory must be a size such as 4GB or 512MiB, got {text!r}")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
