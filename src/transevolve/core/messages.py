"""Progress messages; standard output is for results."""

import sys
from contextlib import suppress


def say(text: str) -> None:
    """One message on standard error, from signal handlers too.

    There may be no standard error, nobody may read it any more, or the signal may have come in the middle of a write:
    no reason to stop.
    """
    with suppress(OSError, ValueError, AttributeError, RuntimeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
