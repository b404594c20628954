"""Errors that the user can fix. The message is one line: what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """An error in user input or in the environment; the command line prints the message without a traceback."""


def quoted(names: Iterable[object], limit: int = 12) -> str:
    """Formats names for a message: 'a', 'b' and 3 more."""
    shown = [repr(str(name)) for name in names]
    rest = len(shown) - limit
    return ", ".join(shown[:limit]) + (f" and {rest} more" if rest > 0 else "")


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if there is no message."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message: the closest known name, or all known names."""
    known = list(known)
    return nearest(name, known) or f"; available: {', '.join(known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the end of a message: the closest known name, or an empty string."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    match = get_close_matches(name.casefold(), by_folded, n=1)
    return f"; did you mean {by_folded[match[0]]!r}?" if match else ""
