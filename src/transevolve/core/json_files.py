"""Strict JSON, validated as typed objects. Invalid files raise a one-line `UserError`."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from .errors import UserError
from .reading import open_regular

T = TypeVar("T")
# Longer integers overflow a float, and Python refuses to parse more than 4,300 digits.
MAX_DIGITS = 300


def parse_json(text: str) -> Any:
    """Parses strict JSON: no duplicate keys, huge numbers or deep nesting. Raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise ValueError(f"{error.msg}, {line}column {error.colno}") from None
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} appears twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits, more than {MAX_DIGITS}")
    return int(digits)


def read_json(path: Path, kind: type[T]) -> T:
    """Reads a file as `kind`: a dataclass, or a dict, list or union of plain types. Unknown keys are ignored."""
    with open_regular(path) as file:
        content = file.read()
    try:
        parse_json(content.decode())
    except ValueError as error:
        raise UserError(f"{path} is damaged: it is not valid JSON ({error})") from None
    try:
        return TypeAdapter(kind).validate_json(content, strict=True)
    except ValidationError as error:
        raise UserError(f"{path} is damaged: {_first_error(error)}") from None


def read_json_lines(path: Path, kind: type[T]) -> tuple[list[T], list[int]]:
    """Reads the lines of a file as `kind`; also returns the numbers of damaged lines.

    A last line without a newline may still be being written and does not count as damaged.
    """
    if not path.is_file():
        return [], []
    with open_regular(path) as file:
        lines = file.read().split(b"\n")
    adapter, rows, damaged = TypeAdapter(kind), [], []
    for number, line in enumerate(lines, start=1):
        try:
            parse_json(line.decode())
            rows.append(adapter.validate_json(line, strict=True))
        except ValueError:
            if line.strip() and number < len(lines):
                damaged.append(number)
    return rows, damaged


def _first_error(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in found["loc"])
    message = found["msg"][:1].lower() + found["msg"][1:]
    return f"{key!r}: {message}" if key else message
