"""Progress messages; standard output is for results."""

import sys
from contextlib import suppress


def say(text: str) -> None:
    """One message on standard error. Nobody may be reading it any more, which is no reason to stop."""
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)
