"""Escapes arbitrary text for Markdown."""

import re

ACTIVE = re.compile(r"[\\`*\[\]<>|~$&#]|(?<![^\W_])_|_(?![^\W_])")


def escape(text: str) -> str:
    """Returns the text as one line without active markup."""
    return ACTIVE.sub(r"\\\g<0>", " ".join(text.split()))


def code(text: str) -> str:
    """Returns the text as a code span."""
    line = " ".join(text.split())
    ticks = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def code_block(text: str, language: str = "") -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
