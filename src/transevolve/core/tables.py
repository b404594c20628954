"""Tables for the terminal and for Markdown. Cells are plain text: markup in them is escaped."""

import os
import sys

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .markdown import code, escape

EDGES = 3  # a column's border and padding


def show(title: str, columns: list[str], cells: list[list[str]]) -> None:
    """Prints a table. Long text wraps between words; if the longest words do not fit, cells are stacked."""
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    words = [max(map(_longest_word, column)) for column in zip(columns, *cells, strict=True)]
    console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else sum(widths) + _edges(columns))
    room = console.width - _edges(columns)
    if sum(words) > room:
        _show_stacked(console, title, columns, cells)
        return
    while sum(widths) > room:
        _, widest = max((width, i) for i, width in enumerate(widths) if width > words[i])
        widths[widest] -= 1
    table = Table(title=Text(title))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(column), width=width)
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _edges(columns: list[str]) -> int:
    return EDGES * len(columns) + 1


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _show_stacked(console: Console, title: str, columns: list[str], cells: list[list[str]]) -> None:
    """Prints one line per cell, and an empty line after each row."""
    console.print(Text(title, style="italic"))
    table = Table.grid(padding=(0, 2))
    table.add_column(width=min(max(map(cell_len, columns)), console.width // 2), overflow="fold")
    table.add_column(overflow="fold")
    for row in cells:
        for column, cell in zip(columns, row, strict=True):
            if cell:
                table.add_row(Text(column, style="bold"), Text(cell))
        table.add_row()
    console.print(table)


def markdown(title: str, header: dict[str, str], columns: list[str], cells: list[list[str]], reading: str) -> str:
    """Returns a Markdown page: how the numbers were measured, then the table."""
    lines = [f"# {escape(title)}", ""]
    lines += [f"- {key}: {code(value)}" for key, value in header.items()]
    lines += ["", reading, "", _row(columns), _row(["---"] * len(columns))]
    lines += [_row([escape(cell) for cell in row]) for row in cells]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
