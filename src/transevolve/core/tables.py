"""Tables for a terminal and for Markdown."""

import sys

from rich.console import Console
from rich.table import Table


def console() -> Console:
    """Standard output; wide where it is not a terminal, so that files and pipes get whole rows."""
    return Console(width=None if sys.stdout.isatty() else 180)


def show(title: str, columns: list[str], cells: list[list[str]]) -> None:
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in cells:
        table.add_row(*row)
    console().print(table)


def markdown(title: str, header: dict[str, str], columns: list[str], cells: list[list[str]], reading: str) -> str:
    """A page for GitHub: how it was measured, then the numbers."""
    lines = [f"# {title}", ""]
    lines += [f"- {key}: `{value}`" for key, value in header.items()]
    lines += ["", reading, "", _bar(columns), _bar(["---"] * len(columns))]
    lines += [_bar([cell.replace("|", "\\|") for cell in row]) for row in cells]
    return "\n".join(lines) + "\n"


def _bar(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
