"""JSON that anyone may have edited: read in one line of error or not at all, and checked against types."""

import json
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from .errors import UserError


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is damaged: it is not JSON") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no JSON object")
    return content


def fits(value: Any, kind: Any) -> bool:
    """`kind` is a plain type, Any, or a list, dict or union of such."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in inner)
    if origin is list:
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1]) for item in value.values())
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)
