"""Errors that the user can fix: one line that says what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something outside the program is wrong; the command line prints only the message, without a traceback."""


def quoted(names: Iterable[object], limit: int = 12) -> str:
    """Names for a message: 'a', 'b' and 3 more."""
    shown = [repr(str(name)) for name in names]
    rest = len(shown) - limit
    return ", ".join(shown[:limit]) + (f" and {rest} more" if rest > 0 else "")


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: the nearest known name, or all of them."""
    known = list(known)
    return nearest(name, known) or f"; there are {', '.join(known)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: the nearest known name, or nothing."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    match = get_close_matches(name.casefold(), by_folded, n=1)
    return f"; did you mean {by_folded[match[0]]!r}?" if match else ""
