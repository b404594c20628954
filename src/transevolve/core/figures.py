"""Matplotlib in one place: without a screen, with text drawn as written, saved whole."""

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


def plain(text: str, most: int = 80) -> str:
    """Text from outside for a title, label or tick: never read as mathematics, only characters that the font has.

    A longer text is cut, because it would leave no room for the picture. A legend skips labels that start with an
    underscore, so that one gets a zero-width space before it.
    """
    known = _characters()
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    shown = "".join(letter if ord(letter) in known else "?" for letter in text).replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())


def whole_ticks(axis: Any) -> None:
    """Ticks of an x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def save(figure: Any, path: Path, dpi: int = 120) -> None:
    """Writes the picture in the format of the path's suffix, and closes the figure."""
    import matplotlib.pyplot as plt

    try:
        with atomic_file(path) as file:
            figure.savefig(file, format=path.suffix.removeprefix(".") or "png", dpi=dpi)
    finally:
        plt.close(figure)
