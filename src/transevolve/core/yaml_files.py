"""YAML 1.2 of plain values. Scalars stay strings until `core.values` converts them to the declared type."""

from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from .errors import UserError

MAX_BYTES, MAX_DEPTH = 2**18, 32
NULLS = ("", "~", "null", "Null", "NULL")


class Scalar(str):
    """A scalar or key as written in a file, with its line number."""

    line: int


def read_yaml(path: Path) -> dict[str, Any]:
    """Reads nested dicts and lists of strings and None."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} has {path.stat().st_size:,} bytes: too large for a settings file")
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{path}{where}: not valid YAML: {problem}") from None
    if not isinstance(content or {}, dict):
        raise UserError(f"{path} must contain settings such as `training: {{epochs: 3}}`, not a single value or a list")
    return content or {}


def parse_yaml(text: str) -> Any:
    """Parses one document; raises YAMLError for tags, aliases, duplicate keys and deep nesting."""
    opened: list[list[Any]] = [[]]
    for event in YAML(typ="safe", pure=True).parse(StringIO(text)):
        if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "ctag", None):
            raise MarkedYAMLError(problem="a tag, anchor or alias; write the value out", problem_mark=event.start_mark)
        if isinstance(event, events.CollectionStartEvent):
            opened.append([])
            if len(opened) > MAX_DEPTH:
                raise MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
        elif isinstance(event, events.CollectionEndEvent):
            items = opened.pop()
            opened[-1].append(_mapping(items, event) if isinstance(event, events.MappingEndEvent) else items)
        elif isinstance(event, events.ScalarEvent):
            scalar = Scalar(event.value)
            scalar.line = event.start_mark.line + 1
            opened[-1].append(None if event.style is None and scalar in NULLS else scalar)
        elif isinstance(event, events.DocumentEndEvent) and len(opened[0]) > 1:
            raise MarkedYAMLError(problem="more than one document", problem_mark=event.start_mark)
    return opened[0][0] if opened[0] else None


def _mapping(items: list[Any], end: events.MappingEndEvent) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, Scalar) or key in found:
            problem = f"duplicate key {str(key)!r:.80}" if isinstance(key, Scalar) else "a key must be a string"
            raise MarkedYAMLError(problem=problem, problem_mark=end.start_mark)
        found[key] = value
    return found


def dump_yaml(content: Any) -> str:
    """Writes block style, keys in order; `parse_yaml` restores every string exactly."""
    yaml, stream = YAML(typ="safe", pure=True), StringIO()
    yaml.default_flow_style, yaml.allow_unicode, yaml.width = False, True, 120
    yaml.sort_base_mapping_type_on_output = False  # pyright: ignore[reportAttributeAccessIssue]
    yaml.dump(content, stream)
    return stream.getvalue()
