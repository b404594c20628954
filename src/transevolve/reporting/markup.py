"""Pieces of a web page that is whole in itself. Every text is escaped here."""

import base64
import html
from collections.abc import Sequence, Set
from io import BytesIO
from pathlib import Path
from typing import Any

from ..explain.page import asset


def document(title: str, sections: Sequence[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{asset('style.css')}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{html.escape(title)}</h1>\n" + "\n".join(sections) + "\n</main>\n</body>\n</html>\n"
    )


def section(title: str, sentence: str, *parts: str) -> str:
    inner = "\n".join(parts)
    return f"<section>\n<h2>{html.escape(title)}</h2>\n<p>{html.escape(sentence)}</p>\n{inner}\n</section>"


def paragraph(text: str) -> str:
    return f'<p class="soft">{html.escape(text)}</p>'


def heading(text: str) -> str:
    return f"<h3>{html.escape(text)}</h3>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], best: Set[tuple[int, int]] = frozenset()) -> str:
    """Columns of numbers stand to the right; `best` (row, column) are bold."""
    right = [_are_numbers([row[c] for row in rows]) for c in range(len(columns))]
    head = "".join(_cell("th", column, right[c]) for c, column in enumerate(columns))
    body = "".join(
        "<tr>" + "".join(_cell("td", cell, right[c], (r, c) in best) for c, cell in enumerate(row)) + "</tr>\n"
        for r, row in enumerate(rows)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _are_numbers(cells: list[str]) -> bool:
    told = [cell for cell in cells if cell not in ("", "—")]
    return bool(told) and all(cell[:1].isdigit() for cell in told)


def _cell(tag: str, text: str, right: bool, bold: bool = False) -> str:
    shown = f"<strong>{html.escape(text)}</strong>" if bold else html.escape(text)
    return f'<{tag} class="number">{shown}</{tag}>' if right else f"<{tag}>{shown}</{tag}>"


def confusion(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """True classes down, predicted classes across; the colour is the share of the true class."""
    head = "".join(f"<th>{html.escape(label)}</th>" for label in labels)
    rows = []
    for label, row in zip(labels, counts, strict=True):
        total = max(sum(row), 1)
        cells = "".join(_shaded(count, count / total) for count in row)
        rows.append(f"<tr><th>{html.escape(label)}</th>{cells}</tr>")
    lines = "\n".join(rows)
    return f'<div class="wide"><table class="confusion"><tr><th></th>{head}</tr>\n{lines}</table></div>'


def _shaded(count: int, share: float) -> str:
    ink = "white" if share > 0.55 else "inherit"
    ground = f"rgb({247 - 214 * share:.0f} {249 - 136 * share:.0f} {252 - 71 * share:.0f})"
    return f'<td style="background:{ground};color:{ink}" title="{100 * share:.1f} % of the row">{count:,}</td>'


def figure_image(figure: Any, words: str) -> str:
    """A matplotlib figure as a vector picture inside the page."""
    import matplotlib
    import matplotlib.pyplot as plt

    content = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "transevolve"}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    plt.close(figure)
    return _image("svg+xml", content.getvalue(), words)


def file_image(path: Path, words: str) -> str:
    return _image("png", path.read_bytes(), words)


def _image(kind: str, content: bytes, words: str) -> str:
    data = base64.b64encode(content).decode("ascii")
    return f'<img alt="{html.escape(words)}" src="data:image/{kind};base64,{data}">'
