"""Matplotlib without a screen, and labels that it takes as they are."""

from pathlib import Path
from typing import Any

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
    """The old picture or the new one, never a part of it."""
    import matplotlib.pyplot as plt

    part = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(part, format=path.suffix.removeprefix(".") or "png", dpi=120, **options)
    part.replace(path)
    plt.close(figure)
