"""Progress messages on standard error; standard output is for results."""

import sys
from contextlib import suppress


def say(text: str) -> None:
    """Writes a message to standard error; safe in signal handlers.

    Errors are ignored: standard error may be missing or closed, or a signal may have interrupted another write.
    """
    with suppress(OSError, ValueError, AttributeError, RuntimeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
