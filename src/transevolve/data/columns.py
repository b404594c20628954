"""Chooses the text and label columns of a table: as named by the user, or recognised by name or content."""

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

    A column that the user names must exist. Other columns are recognised by a common name. In a table of two columns,
    one common name is enough; with none, the column with fewer distinct values is the label.
    """
    if text is None:
        text = recognised_pair(table.columns, label)
    if isinstance(text, str | None) and isinstance(label, str | None):
        return _choose_two(table, text, label)
    texts, labels = names_of(text), names_of(label)
    for role, names in (("text", texts), ("label", labels)):
        for name in names:
            require_column(table, name, role)
    if len(texts) > 2:
        raise UserError(f"data.text names {len(texts)} columns, {quoted(texts)}: give one, or two for pairs of texts")
    twice = [name for position, name in enumerate([*texts, *labels]) if name in [*texts, *labels][:position]]
    if twice:
        raise UserError(f"data.text and data.label name the column {twice[0]!r} twice: name different columns")
    found = [recognised(table.columns, TEXT_NAMES, {*labels}), recognised(table.columns, LABEL_NAMES, {*texts})]
    for names, name, role in ((texts, found[0], "text"), (labels, found[1], "label")):
        rest = [column for column in table.columns if column not in (*texts, *labels)]
        if not names and name is None and len(rest) != 1:
            raise UserError(
                f"{table.file}: which column contains the {role}s? Name it with data.{role}: {quoted(table.columns)}"
            )
        if not names:
            names.append(name or rest[0])
    return texts if len(texts) > 1 else texts[0], labels if len(labels) > 1 else labels[0]


def recognised_pair(columns: Sequence[str], label: Columns | None) -> list[str] | None:
    """Two text columns with the names that common data sets of pairs use."""
    by_name = {column.casefold(): column for column in columns if column not in names_of(label)}
    return next(([by_name[name] for name in pair] for pair in PAIR_NAMES if all(n in by_name for n in pair)), None)


def _choose_two(table: Table, text: str | None, label: str | None) -> tuple[str, str]:
    for role, name in (("text", text), ("label", label)):
        require_column(table, name, role)
    if text is not None and text == label:
        raise UserError(f"data.text and data.label are both {text!r}: name two different columns")
    text = text or recognised(table.columns, TEXT_NAMES, {label})
    label = label or recognised(table.columns, LABEL_NAMES, {text})
    if len(table.columns) == 2:
        first, second = table.columns
        if text is None and label is None:
            return _by_content(table)
        text = text or (second if label == first else first)
        label = label or (second if text == first else first)
    if text is None:
        raise UserError(
            f"{table.file}: which column contains the texts? Name it with data.text: {quoted(table.columns)}"
        )
    if label is None:
        raise UserError(
            f"{table.file}: which column contains the labels? Name it with data.label: {quoted(table.columns)}"
        )
    return text, label


def choose_text_column(table: Table, text: str | None = None) -> str:
    """The text column, if no labels are needed."""
    require_column(table, text, "text")
    if len(table.columns) == 1:
        return table.columns[0]
    text = text or recognised(table.columns, TEXT_NAMES, set())
    if text is None:
        raise UserError(f"{table.file}: which column contains the texts? Name it: {quoted(table.columns)}")
    return text


def require_column(table: Table, name: str | None, role: str) -> None:
    if name is not None and name not in table.columns:
        raise UserError(
            f"{table.file}: there is no column {name!r} (data.{role}); the columns are {quoted(table.columns)}"
            f"{nearest(name, table.columns)}"
        )


def recognised(columns: Sequence[str], names: Sequence[str], taken: set[str | None]) -> str | None:
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
