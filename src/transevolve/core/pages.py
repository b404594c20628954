"""Pages from Jinja2 templates: self-contained HTML, which escapes every value, and Markdown with filters for it."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from . import markdown

PACKAGE, FOLDER = "transevolve", "templates"


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(PACKAGE, FOLDER),
        autoescape=select_autoescape(["html"], disabled_extensions=["md"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["asset"] = _asset
    environment.filters |= {"markdown": markdown.escape, "code": markdown.code, "code_block": markdown.code_block}
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment


def _asset(name: str) -> str:
    """Returns a style sheet or script of the package; templates insert it unescaped: {{ asset(name)|safe }}."""
    return files(PACKAGE).joinpath(FOLDER, name).read_text(encoding="utf-8")
