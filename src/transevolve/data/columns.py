"""Chooses the text and label columns of a table: as named by the user, or recognized by name or content."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from ..core.errors import UserError, nearest, quoted
from .labels import canonical
from .tables import Table
from .wide_rows import names_of

TEXT_NAMES = (
    "text", "texts", "sentence", "comment", "review", "content", "message", "body", "document", "utterance", "tweet",
    "post", "query", "question", "abstract", "article", "headline", "title", "description", "source", "input",
)  # fmt: skip
LABEL_NAMES = (
    "label", "labels", "class", "classes", "category", "verdict", "target", "sentiment", "topic", "intent", "rating",
    "stars", "score", "tag", "answer", "output",
)  # fmt: skip
PAIR_NAMES = (
    ("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2"),
    ("sentence_a", "sentence_b"), ("text_a", "text_b"), ("text", "text_pair"),
)  # fmt: skip
SAMPLE = 1000
Columns = str | list[str]


def choose_columns(table: Table, text: Columns | None = None, label: Columns | None = None) -> tuple[Columns, Columns]:
    """The text columns (one, or two for pairs) and the label columns (one or several).

    A column that the user names must exist. Other columns are recognized by a common name, or by being the only one
    left. In a table of two columns without common names, the column with fewer distinct values is the label.
    """
    texts = names_of(recognized_pair(table.columns, label) if text is None else text)
    labels = names_of(label)
    for role, names in (("text", texts), ("label", labels)):
        for name in names:
            require_column(table, name, role)
    if len(texts) > 2:
        raise UserError(f"data.text names {len(texts)} columns, {quoted(texts)}: give one, or two for pairs of texts")
    twice = [name for name, count in Counter([*texts, *labels]).items() if count > 1]
    if twice:
        raise UserError(f"data.text and data.label name the column {twice[0]!r} twice: name different columns")
    texts = texts or names_of(recognized(table.columns, TEXT_NAMES, {*labels}))
    labels = labels or names_of(recognized(table.columns, LABEL_NAMES, {*texts}))
    if not texts and not labels and len(table.columns) == 2:
        return _by_content(table)
    for role, names in (("text", texts), ("label", labels)):
        rest = [column for column in table.columns if column not in (*texts, *labels)]
        if not names and len(rest) != 1:
            raise UserError(
                f"{table.file}: which column contains the {role}s? Name it with data.{role}: {quoted(table.columns)}"
            )
        names += [] if names else rest
    return texts if len(texts) > 1 else texts[0], labels if len(labels) > 1 else labels[0]


def recognized_pair(columns: Sequence[str], label: Columns | None) -> list[str] | None:
    """Two text columns with the names that common data sets of pairs use."""
    by_name = {column.casefold(): column for column in columns if column not in names_of(label)}
    return next(([by_name[name] for name in pair] for pair in PAIR_NAMES if all(n in by_name for n in pair)), None)


def choose_text_column(table: Table, text: str | None = None) -> str:
    """The text column, if no labels are needed."""
    require_column(table, text, "text")
    if len(table.columns) == 1:
        return table.columns[0]
    text = text or recognized(table.columns, TEXT_NAMES, set())
    if text is None:
        raise UserError(f"{table.file}: which column contains the texts? Name it: {quoted(table.columns)}")
    return text


def require_column(table: Table, name: str | None, role: str) -> None:
    if name is not None and name not in table.columns:
        raise UserError(
            f"{table.file}: there is no column {name!r} for the {role}s; the columns are {quoted(table.columns)}"
            f"{nearest(name, table.columns)}"
        )


def recognized(columns: Sequence[str], names: Sequence[str], taken: set[str | None]) -> str | None:
    """The only column with one of these names; `names[0]` takes precedence over the others."""
    found = [column for column in columns if column.casefold() in names and column not in taken]
    first = [column for column in found if column.casefold() == names[0]]
    if len(first) == 1:
        return first[0]
    return found[0] if len(found) == 1 else None


def _by_content(table: Table) -> tuple[str, str]:
    sample = [values for _, values in islice(table.select(table.columns), SAMPLE)]
    kinds = [len({repr(values[position]) for values in sample}) for position in (0, 1)]
    if kinds[0] == kinds[1]:
        raise UserError(
            f"{table.file}: which of {quoted(table.columns)} contains the texts, and which the labels?"
            " Name them with data.text and data.label"
        )
    position = kinds.index(min(kinds))
    text, label = table.columns[1 - position], table.columns[position]
    if table.unit == "line" and canonical(label) in {str(values[position]).strip() for values in sample}:
        raise UserError(
            f"{table.file}, line 1: {label!r} is a label here and in other lines, so the file has no header;"
            f" put one above it, such as {'text,label' if position else 'label,text'}"
        )
    return text, label
