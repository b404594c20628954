"""Converts a dataclass of options to a Cyclopts command.

A field becomes `--name value`, a list `--name a b c`, a bool `--name` or `--no-name`, a dataclass `--name.field value`.
A field with `metadata=POSITIONAL` is positional. Help comes from the `Args:` section of the docstring.
"""

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields
from typing import Annotated, Any, TypedDict, get_args, get_origin, get_type_hints, is_typeddict

from cyclopts import Group, Parameter

from ..core.values import read_value

POSITIONAL = {"positional": True}
COMMON = Group("Common options", sort_key=1)


def as_command(options: type, summary: str) -> Callable[..., Any]:
    """Returns a function with one parameter per field; it returns the options."""
    hints, parameters = get_type_hints(options, include_extras=True), []
    for f in fields(options):
        kind, hint = inspect.Parameter.KEYWORD_ONLY, hints[f.name]
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if f.metadata.get("positional"):
            kind = inspect.Parameter.POSITIONAL_ONLY
        if f.metadata.get("positional") and get_origin(hint) is list:
            kind, hint, default = inspect.Parameter.VAR_POSITIONAL, get_args(hint)[0], MISSING
            hint = Annotated[hint, Parameter(allow_leading_hyphen=True)]
        elif not is_typeddict(hint):
            hint = Annotated[hint, Parameter(converter=lambda _, tokens, hint=hint: convert(hint, tokens))]
        default = inspect.Parameter.empty if default is MISSING else default
        parameters.append(inspect.Parameter(f.name, kind, annotation=hint, default=default))
    signature = inspect.Signature(sorted(parameters, key=lambda parameter: parameter.kind))

    def command(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        return options(**{name: list(value) if isinstance(value, tuple) else value for name, value in bound.items()})

    command.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    docs = [inspect.cleandoc(kind.__doc__ or "").partition("\n\nArgs:\n") for kind in options.__mro__[-2::-1]]
    command.__doc__ = f"{summary}\n\n{docs[-1][0]}\n\nArgs:\n" + "\n".join(arguments for _, _, arguments in docs)
    return command


def sparse(settings: type, common: Collection[str] = ()) -> Any:
    """Returns a TypedDict of a dataclass's settings; its values contain only the flags that were passed.

    The `common` settings of all sections come first in the help.
    """
    hints, flags, section = get_type_hints(settings), {}, settings.__name__.removesuffix("Options")
    for f in fields(settings):
        shown = False if f.default in (None, False) else str(f.default)
        group = COMMON if f.name in common else Group(section, sort_key=2)
        flags[f.name] = Annotated[hints[f.name], Parameter(help=f.metadata["help"], show_default=shown, group=group)]
    return TypedDict(settings.__name__, flags, total=False)  # pyright: ignore[reportArgumentType, reportCallIssue]


def convert(kind: Any, tokens: Any) -> Any:
    """Converts command line tokens in the same way as the values of a recipe."""
    if is_typeddict(kind):
        raise ValueError(f"set one of its settings, such as .{next(iter(kind.__annotations__))}")
    if isinstance(tokens, dict):
        return read_value(kind, {key: values[0].value for key, values in tokens.items()})
    lists = list in {get_origin(one) or one for one in (kind, *get_args(kind))}
    return read_value(kind, [token.value for token in tokens] if lists else tokens[0].value)
