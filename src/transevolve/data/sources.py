"""Labelled splits from files or the hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..core.errors import UserError
from .columns import choose_columns, require_column
from .options import DataOptions, Split
from .rows import Rows, read_rows
from .tables import Table
from .wide_rows import names_of, read_wide_rows

MULTILABEL = "multilabel"


@dataclass
class Source:
    """A name and a table per split. The first table read determines the columns; the others must have them.

    `hub` contains fingerprints of data that is not in files.
    """

    names: Mapping[Split, str]
    tables: Mapping[Split, Callable[[], Table]]
    options: DataOptions
    columns: dict[str, str | list[str]] = field(default_factory=dict)
    hub: Mapping[str, str] = field(default_factory=dict)

    @property
    def pairs(self) -> bool:
        """Whether rows have two texts."""
        return len(names_of(self.columns.get("text"))) > 1

    def choose(self, table: Table) -> None:
        """Choose the columns."""
        text, label = choose_columns(table, self.options.text, self.options.label)
        self.columns = {"text": text, "label": label}

    def read(self, split: Split) -> Rows:
        table = self.tables[split]()
        if not self.columns:
            self.choose(table)
        for role, names in self.columns.items():
            for name in names_of(names):
                require_column(table, name, role)
        text, label = self.columns["text"], self.columns["label"]
        several = self.options.task == MULTILABEL
        if not several and not isinstance(label, str):
            raise UserError(
                f"data.label names {len(label)} columns, which the task {self.options.task!r} cannot use: name one"
            )
        if isinstance(text, str) and isinstance(label, str) and not several:
            return read_rows(table, text, label)
        return read_wide_rows(table, names_of(text), names_of(label), several, self.options.label_separator)
