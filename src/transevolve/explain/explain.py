"""The page and the picture of one text."""

from pathlib import Path

from ..core.errors import UserError
from ..core.files import write_atomically
from .observe import Observation, Observer
from .page import explanation_page
from .picture import write_picture

SHOWN = 48


def write_explanation(observer: Observer, text: str, page: Path, tokens: int = SHOWN) -> Observation:
    """Write the page and the picture; both show the first `tokens` of a long text."""
    if not text.strip():
        raise UserError('give a text to explain: transevolve explain RUN "the text"')
    seen = observer.observe(text)
    evolves = observer.model.config.evolution != "none"
    write_atomically(page, explanation_page(seen, tokens, evolves, not observer.exact))
    write_picture(page.with_suffix(".png"), seen, tokens)
    return seen
