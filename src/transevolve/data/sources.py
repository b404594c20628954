"""Labelled splits that can be read, wherever they come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .columns import choose_columns, require_column
from .options import Split
from .rows import Rows, read_rows
from .tables import Table


@dataclass
class Source:
    """A name and a table for each split. The first one read decides on the columns; the others must have them.

    `hub` has fingerprints of what is not in files.
    """

    names: Mapping[Split, str]
    tables: Mapping[Split, Callable[[], Table]]
    text: str | None = None
    label: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    hub: Mapping[str, str] = field(default_factory=dict)

    def choose(self, table: Table) -> None:
        """Decides on the columns."""
        text, label = choose_columns(table, self.text, self.label)
        self.columns = {"text": text, "label": label}

    def read(self, split: Split) -> Rows:
        table = self.tables[split]()
        if not self.columns:
            self.choose(table)
        for role, name in self.columns.items():
            require_column(table, name, role)
        return read_rows(table, self.columns["text"], self.columns["label"])
