"""Matplotlib helpers: figures without a display, literal text, atomic saves."""

from functools import cache
from pathlib import Path
from typing import Any

from .files import atomic_file

TIMES = "\N{MULTIPLICATION SIGN}"


def new_figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def plain(text: str, max_length: int = 80) -> str:
    """Prepares user text for a title, label or tick: truncated, without math mode, only characters of the font.

    Matplotlib legends skip labels that start with an underscore, so such a label gets a leading zero-width space.
    """
    known = _characters()
    text = text if len(text) <= max_length else f"{text[: max_length - 1]}…"
    shown = "".join(character if ord(character) in known else "?" for character in text).replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())


def integer_ticks(axis: Any) -> None:
    """Puts the ticks of the x axis at integers only."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def save(figure: Any, path: Path, dpi: int = 120) -> None:
    """Writes the figure in the format of the path's suffix, then closes it."""
    import matplotlib.pyplot as plt

    try:
        with atomic_file(path) as file:
            figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=dpi)
    finally:
        plt.close(figure)
