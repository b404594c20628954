"""Matplotlib without a screen, and labels that it takes as they are."""

from pathlib import Path
from typing import Any

from .files import atomic_file

TIMES = "\N{MULTIPLICATION SIGN}"


def new_figure(width: float, height: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def plain(text: str) -> str:
    """Text that is not read as mathematics, and holds only what the font can draw."""
    from matplotlib import font_manager, ft2font

    font = ft2font.FT2Font(font_manager.findfont("DejaVu Sans"))
    known = font.get_charmap()
    return "".join(letter if ord(letter) in known else "?" for letter in text).replace("$", r"\$")


def save(figure: Any, path: Path, **options: Any) -> None:
    """Writes the picture atomically and closes the figure."""
    import matplotlib.pyplot as plt

    with atomic_file(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix(".") or "png", **{"dpi": 120, **options})
    plt.close(figure)
